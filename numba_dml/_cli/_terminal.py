"""What commands print: tables, facts and progress as plain text, and sizes and times in words."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print rows under titles; the columns named in `right` are aligned to the right."""
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


class Progress:
    """How far a block is: a line that is written over and over, if the standard error stream is a terminal."""

    def __init__(self, text: str, total: float, hidden: bool = False) -> None:
        self.text, self.total, self.done, self.line = text, total, 0.0, ""
        self.shown = not hidden and sys.stderr.isatty() and total > 0

    def __enter__(self) -> Progress:
        self.advance(0)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.line:
            sys.stderr.write(f"\r{' ' * len(self.line)}\r")

    def advance(self, amount: float, text: str | None = None) -> None:
        """Add to what is done, and perhaps say what comes next."""
        if not self.shown:
            return
        self.done += amount
        self.text = self.text if text is None else text
        line = f"{self.text}: {100 * self.done / self.total:.0f} %"
        if line != self.line:
            sys.stderr.write(f"\r{line.ljust(len(self.line))}")
            sys.stderr.flush()
            self.line = line


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
    """Refuse a path that no picture can be saved to, before the work is done; its ending says the format."""
    from matplotlib.figure import Figure

    check_place("--plot", path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"--plot: found {path}, expected a file that can be written")
    formats = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        raise ValueError(f"--plot: found {path}, expected a name that ends in one of .{', .'.join(formats)}")
