"""The pictures of the page about speed, drawn from its tables when the site is made: ``draw(page, folder)``."""

import re
from pathlib import Path

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

OURS = "numba_dml"
MARKS = {"numpy": "o", "torch": "s", "onnxruntime": "D", "jax": "^", "faiss": "v", "cupy": "P"}
COLORS = dict(zip(MARKS, ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan"), strict=True))
MOVES = ["gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd"]
#: The heading behind which the tables of GPUs are.
GPU = "\n## On a GPU\n"


def tables(page: str) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Return the titles and rows of the table under each heading that is an operator."""
    found = {}
    for part in re.split(r"^#+ (?=\w+$)", page, flags=re.MULTILINE)[1:]:
        lines = [line for line in part.split("\n\n")[1].splitlines() if line.startswith("|")]
        titles, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        found[part.partition("\n")[0]] = titles, rows
    return found


def milliseconds(cell: str, bracketed: bool) -> float | None:
    """Return a time of a cell such as ``0.61 (0.58)``, or none."""
    numbers = re.fullmatch(r"([\d.]+)?\s*(?:\(([\d.]+)\))?", cell)
    if not numbers:
        return None
    first, second = numbers.groups()
    found = second or first if bracketed else first
    return float(found) if found else None


def picture(page: str, operators: list[str], bracketed: bool) -> Figure:
    """Draw a line for each case, on which the libraries stand where their time is a multiple of ours."""
    names: list[str] = []
    points: dict[str, list[tuple[float, int]]] = {}
    for operator, (titles, rows) in tables(page).items():
        libraries = titles[1 : next(i for i, title in enumerate(titles) if title.startswith("best"))]
        for case, *cells in rows if operator in operators else []:
            times = {name: milliseconds(cell, bracketed) for name, cell in zip(libraries, cells, strict=False)}
            if case.startswith("8 elements"):
                continue  # the time of the interpreter
            ours = times.pop(OURS)
            for name, time in times.items():
                if time is not None:
                    points.setdefault(name, []).append((time / ours, len(names)))
            names.append(case if len(operators) == 1 else f"{operator}: {case}")
    figure = Figure(figsize=(9, 0.27 * len(names) + 1.1), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    axes.axvline(1, color="tab:red", linewidth=2, label=OURS)
    for name, found in points.items():
        axes.plot(*zip(*found, strict=True), MARKS[name], color=COLORS[name], markersize=5, alpha=0.85, label=name)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="both", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("time of a call, as a multiple of numba_dml's")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper right", ncols=len(points) + 1, frameon=False, fontsize=9)
    return figure


def draw(page: Path, folder: Path) -> None:
    """Write the pictures of a page."""
    folder.mkdir(exist_ok=True)
    cpu, gpu = page.read_text().split(GPU)
    for name, part, operators, bracketed in (
        # On the CPU all libraries have times of calls that allocate; they are in brackets.
        ("cpu-top-k", cpu, ["top_k"], True),
        ("cpu-moves", cpu, MOVES, True),
        ("gpu-top-k", gpu, ["top_k"], False),
        ("gpu-moves", gpu, MOVES, False),
    ):
        picture(part, operators, bracketed).savefig(folder / f"{name}.svg")
