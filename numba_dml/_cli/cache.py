"""``cache``: the compiled kernels on disk."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from . import _terminal

KERNEL_ENDINGS = (".nbc", ".cubin")  #: of Numba's files for the CPU, and of ours for a GPU
ENDINGS = (*KERNEL_ENDINGS, ".nbi", ".part", ".lock")  #: an index, unfinished files, locks; no other file is ours


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=["show", "clear"], nargs="?", default="show", help="default: show")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _folders(folder: Any) -> Iterator[str]:
    """Return a folder of sources and those in it, also in an archive."""
    yield str(folder)
    for each in folder.iterdir():
        if each.is_dir() and each.name != "__pycache__":
            yield from _folders(each)


def places(target: str) -> list[Path]:
    """Return the directories where the kernels of a target are kept: Numba has one for each folder of sources."""
    from .._jit.disk_cache import directories_of

    return directories_of(*_folders(package_files("numba_dml") / target))


def files(target: str) -> list[Path]:
    """Return the files of the kernels of a target."""
    return [path for place in places(target) if place.is_dir() for path in place.iterdir() if path.suffix in ENDINGS]


def _size(path: Path) -> int:
    """Return the bytes of a file, 0 if another process has removed it."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def state(target: str) -> dict[str, Any]:
    """Return where the kernels of a target are, whether more can be kept there, how many they are and how large."""
    directories = places(target)
    found = files(target)
    return {
        "directory": os.path.commonpath(directories) if directories else None,
        "writable": bool(directories),
        "kernels": sum(path.suffix in KERNEL_ENDINGS for path in found),
        "bytes": sum(map(_size, found)),
    }


def kernels(target: str) -> set[tuple[str, int]]:
    """Return the kernels of a target that are on disk, each with when it was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in files(target) if path.suffix in KERNEL_ENDINGS}


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
                with suppress(FileNotFoundError, PermissionError):  # another process was faster, or holds it
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
