"""What commands print: tables and progress, with rich on a terminal where it is installed, else as plain text."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ..__main__ import has


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print rows under titles; the columns named in `right` are aligned to the right."""
    if sys.stdout.isatty() and has("rich"):
        from rich import box
        from rich.console import Console
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left")
        for row in rows:
            table.add_row(*row)
        Console(highlight=False, markup=False).print(table)
        return
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    for row in (columns, *rows):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        print("  ".join(cells).rstrip())


def print_facts(facts: Sequence[tuple[str, str]], columns: int | None = None) -> None:
    """Print names with what is to say of each; what is too long for a terminal goes on below itself."""
    width = max(len(name) for name, _ in facts)
    if columns is None:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    wrapper = textwrap.TextWrapper(columns, break_long_words=False, break_on_hyphens=False)  # paths stay whole
    wrapper.subsequent_indent = " " * (width + 2)
    for name, text in facts:
        wrapper.initial_indent = f"{name.ljust(width)}  "
        print(wrapper.fill(text) or name)


class Progress(Protocol):
    """How far a command is."""

    def advance(self, amount: float, text: str | None = None) -> None:
        """Add to what is done, and perhaps say what comes next."""


class _Silent:
    def advance(self, amount: float, text: str | None = None) -> None:
        pass


class _Plain:
    """A line that is written over and over."""

    def __init__(self, text: str, total: float) -> None:
        self.text, self.total, self.done, self.shown = text, total, 0.0, ""
        self.advance(0)

    def advance(self, amount: float, text: str | None = None) -> None:
        self.done += amount
        self.text = self.text if text is None else text
        line = f"{self.text}: {100 * self.done / self.total:.0f} %"
        if line != self.shown:
            sys.stderr.write(f"\r{line.ljust(len(self.shown))}")
            sys.stderr.flush()
            self.shown = line

    def clear(self) -> None:
        sys.stderr.write(f"\r{' ' * len(self.shown)}\r")


@contextmanager
def progress(text: str, total: float, hidden: bool = False) -> Iterator[Progress]:
    """Show how far a block is, on the standard error stream, if that is a terminal."""
    if hidden or not sys.stderr.isatty() or total <= 0:
        yield _Silent()
    elif has("rich"):
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        class Shown:
            def advance(self, amount: float, text: str | None = None) -> None:
                bar.update(task, advance=amount, description=text)

        columns: Any = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(text, total=total)
            yield Shown()
    else:
        plain = _Plain(text, total)
        try:
            yield plain
        finally:
            plain.clear()


def size(count: float) -> str:
    """Return a number of bytes in words."""
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if count < 999.5 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """Return a time in words."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def check_place(option: str, path: Path, target: Path | None = None) -> None:
    """Refuse a path of an option that no file can have, or none where it leads to."""
    if path.is_dir():
        raise ValueError(f"{option}: found the directory {path}, expected a file")
    if not (target or path).parent.is_dir():
        raise ValueError(f"{option}: found {path}, expected a file in a directory that exists")


def check_picture(path: Path) -> None:
    """Refuse a path that no picture can be saved to, before the work is done.

    Parameters
    ----------
    path : Path
        The file to write; its ending says the format.

    Raises
    ------
    ValueError
        If no file can be written there, or the format is unknown.
    """
    from matplotlib.figure import Figure

    check_place("--plot", path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"--plot: found {path}, expected a file that can be written")
    formats = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        raise ValueError(f"--plot: found {path}, expected a name that ends in one of .{', .'.join(formats)}")
