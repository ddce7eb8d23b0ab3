"""The layers of the package: a file imports only what stands before it, and each kind of decision has one home.

Imports inside functions count. `KNOWN` holds what still breaks a rule. The tests fail as well once an entry is mended:
so it only gets shorter.
"""

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "numba_dml"
FILES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
#: Each layer imports from those before it, and from itself.
LAYERS = ("core", "jit", "driver", "replay", "primitives", "kernels", "tuning", "dispatch", "calls", "target", "jitted")
MOST_LINES, MOST_FILES = 500, 16
#: What is still to be mended.
KNOWN = {
    "large files": set(),
    "full folders": set(),
}


def layer(name):
    """Return where a module stands: a layer of a target, ``ops``, ``dask``, or ``top``, which users import."""
    parts = name.split(".")[1:]
    if parts[:1] == ["_core"]:
        return "core"
    if parts[:1] == ["_jit"]:
        return "jit"
    if parts[:1] in (["ops"], ["dask"]):
        return parts[0]
    if parts[:1] not in (["cpu"], ["cuda"]):
        return "top"
    if len(parts) == 1 or parts[1] == "device":
        return "target"
    return parts[1] if parts[1] in LAYERS else "driver"


def imported(name):
    """Yield the modules of the package that a module imports, and the name that it takes from each."""
    here = name.split(".")
    if FILES[name].name != "__init__.py":
        here = here[:-1]
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            base = [*base, *(node.module or "").split(".")] if node.module else base
            for alias in node.names:
                full = ".".join([*base, alias.name])
                module = full if full in FILES else ".".join(base)
                if module in FILES and module != name:
                    yield module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES and alias.name != name)


EDGES = {name: set(imported(name)) for name in FILES}


def allowed(source, found):
    """Tell whether a module may import another one."""
    a, b = layer(source), layer(found)
    if a == "top":
        return True
    if a == "dask":  # it adds no kernel; its plugin runs a command
        return b in ("core", "ops", "dask") or (source, found) == ("numba_dml.dask.worker", "numba_dml.__main__")
    if b == "top":
        return found == "numba_dml._version"
    if "ops" in (a, b):
        return a == "ops" and b in ("core", "ops")
    if a == b == "kernels":
        return False
    targets = {name.split(".")[1] for name in (source, found)} & {"cpu", "cuda"}
    return len(targets) < 2 and LAYERS.index(b) <= LAYERS.index(a)


def test_layers():
    wrong = [f"{name} imports {other}" for name in FILES for other in sorted(EDGES[name]) if not allowed(name, other)]
    assert not wrong, "\n".join(wrong)


def test_no_circles():
    known, open_ = set(), []

    def visit(name):
        if name in open_:
            pytest.fail("a circle: " + " -> ".join([*open_[open_.index(name) :], name]))
        if name not in known:
            open_.append(name)
            for other in sorted(EDGES[name]):
                visit(other)
            known.add(open_.pop())

    for name in FILES:
        visit(name)


def test_modules_are_imported_by_name_in_one_place():
    """A target, and Numba's modules for the probe: else nobody could see who imports what."""
    found = {
        name for name, tree in TREES.items() for node in ast.walk(tree) if getattr(node, "id", "") == "import_module"
    }
    assert {name for name in found if layer(name) != "top"} == {"numba_dml._core.targets", "numba_dml._jit.compat"}


def test_files_are_short():
    sizes = {name: len(path.read_text().splitlines()) for name, path in FILES.items()}
    assert {name for name, size in sizes.items() if size > MOST_LINES} == KNOWN["large files"]


def test_folders_are_small():
    folders = Counter(str(path.parent.relative_to(PACKAGE)) for path in FILES.values())
    assert {folder for folder, count in folders.items() if count > MOST_FILES} == KNOWN["full folders"]
