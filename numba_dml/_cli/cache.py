"""``cache``: the compiled kernels on disk."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import _terminal

ENDINGS = (".nbi", ".nbc", ".lock")  #: what Numba, and the locks around it, leave in a cache; no other file is ours


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=["show", "clear"], nargs="?", default="show", help="default: show")
    parser.add_argument("--json", action="store_true", help="print JSON")


def directory(target: str) -> Path | None:
    """Return where the kernels of a target are kept, as Numba finds it; None: nowhere."""
    import numba_dml

    from .._jit.disk_cache import CacheFiles

    file = Path(numba_dml.__file__).parent / target / "__init__.py"
    for kind in CacheFiles._locator_classes:
        locator = kind.from_function(directory, str(file))
        if locator is not None:
            return Path(locator.get_cache_path())
    return None


def files(target: str) -> list[Path]:
    """Return the files of the kernels of a target."""
    place = directory(target)
    return sorted(path for path in place.iterdir() if path.suffix in ENDINGS) if place and place.is_dir() else []


def state(target: str) -> dict[str, Any]:
    """Return where the kernels of a target are, whether more can be kept there, how many they are and how large."""
    place = directory(target)
    found = files(target)
    return {
        "directory": place and str(place),
        "writable": place is not None,
        "kernels": sum(path.suffix == ".nbc" for path in found),
        "bytes": sum(path.stat().st_size for path in found),
    }


def kernels(target: str) -> set[tuple[str, int]]:
    """Return the kernels of a target that are on disk, each with when it was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in files(target) if path.suffix == ".nbc"}


def sentence(found: dict[str, Any]) -> str:
    """Return a state in words."""
    if found["directory"] is None:
        return "no directory can be written: kernels are compiled in every process (set NUMBA_CACHE_DIR)"
    return f"{found['directory']} (can be written): {found['kernels']} kernels, {_terminal.size(found['bytes'])}"


def run(args: argparse.Namespace) -> int:
    """Show or clear the cache."""
    found = {target: state(target) for target in ("cpu", "cuda")}
    if args.action == "clear":
        for target in found:
            for path in files(target):
                with suppress(FileNotFoundError):  # another process was faster
                    path.unlink()
        found = {
            target: {"directory": one["directory"], "removed": one["kernels"], "removed_bytes": one["bytes"]}
            for target, one in found.items()
        }
    if args.json:
        print(json.dumps(found, indent=2))
    elif args.action == "clear":
        count, size = (sum(one[key] for one in found.values()) for key in ("removed", "removed_bytes"))
        print(f"removed {count} kernels, {_terminal.size(size)}")
    else:
        _terminal.print_facts([(target, sentence(one)) for target, one in found.items()])
    return 0
