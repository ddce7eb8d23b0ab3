"""Arrays in zarr stores: an operator's command on them, which Dask runs a chunk at a time.

Where a store is among the inputs or is the output, arrays in .npy and .npz files are Dask's too: each task maps the
part that it needs.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from errno import ENOENT
from pathlib import Path
from typing import Any

import numpy as np

import numba_dml as dml

from .._core.spec import Spec
from .._core.targets import chunked_calls
from . import _arguments, _files, _terminal
from ._files import Array, Results, Source

METADATA = ("zarr.json", ".zarray", ".zgroup")  #: the files that say that a directory is an array or a group of zarr's
MEGABYTE = 1 << 20
LEAST = 500_000_000  #: bytes of a worker: with fewer it dies while it imports and compiles, and the cluster never ends


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how Dask runs an operator's command."""
    group = parser.add_argument_group("with zarr stores")
    schedulers = ("threads", "processes", "synchronous")
    group.add_argument("--scheduler", choices=schedulers, help="what Dask runs on (default: threads)")
    text = "a cluster of N processes on this machine in place of a scheduler"
    group.add_argument("--workers", type=_arguments.positive, metavar="N", help=text)
    group.add_argument("--memory-limit", metavar="SIZE", help="what each of the workers may take, like 2GB")


def needed(names: Sequence[str], args: argparse.Namespace) -> bool:
    """Tell whether a store is among the inputs or is the output; refuse options that only then have a meaning."""
    if args.output.suffix == ".zarr" or any(map(_is_store, names)):
        return True
    for option in ("scheduler", "workers", "memory_limit"):
        if (value := getattr(args, option)) is not None:
            expected = "expected a zarr store among the inputs or as -o"
            raise ValueError(f"--{option.replace('_', '-')}: found {value}, {expected}")
    return False


def run(
    spec: Spec, names: Sequence[str], arguments: dict[str, Any], args: argparse.Namespace
) -> tuple[list[Any], dict[str, Any]]:
    """Run an operator; return its inputs and its results, as arrays of NumPy and Dask."""
    _check(args)
    import dask
    import dask.array as da

    stored = [_open(name) if _is_store(name) else _File(_files.open_source(name)) for name in names]
    part = args.part_mb * MEGABYTE
    lazy = chunked_calls().takes(spec, arguments)  # else it is computed in memory
    with dask.config.set({"array.chunk-size": part}):
        inputs = [
            # Few indices of other data are read before, so that only the chunks are read that they lead to.
            np.asarray(array[...], array.dtype)
            if not lazy
            or not array.ndim
            or (argument == "indices" and argument != spec.inputs[0] and array.nbytes <= part)
            else da.from_array(array, chunks=getattr(array, "chunks", "auto"))
            for argument, array in zip(spec.inputs, stored, strict=True)
        ]
        required = _arguments.required(args, spec).values()
        found = getattr(dml, spec.name)(*inputs, *required, **arguments)
    results = {name: da.asarray(array) for name, array in spec.named_results(found).items()}
    if args.output.suffix == ".zarr":
        results = {
            name: array.rechunk(tuple(max(1, *sizes) for sizes in array.chunks)) for name, array in results.items()
        }
        output = _new_store(args.output, results)
    else:
        sources = [array.source for array in stored if isinstance(array, _File)]
        output = _new_file(args.output, results, sources)
    with output as places, _scheduler(args):
        da.store(list(results.values()), places, lock=False)
    return inputs, results


def _check(args: argparse.Namespace) -> None:
    """Refuse what does not go together, before anything is opened."""
    from dask.utils import parse_bytes

    if args.target == "cuda":
        raise ValueError("--target: found cuda, expected cpu with zarr stores, whose chunks are read into memory")
    for option, other in (("scheduler", "workers"), ("threads", "workers")):
        if getattr(args, option) and args.workers:
            raise ValueError(f"--{option}: found --{other} beside it, expected one of them: a worker has one thread")
    if args.memory_limit:
        if not args.workers:
            raise ValueError("--memory-limit: found no --workers, which it is for, expected both")
        try:
            enough = parse_bytes(args.memory_limit) >= LEAST
        except ValueError:
            enough = False
        if not enough:
            expected = f"expected a size like 2GB, {_terminal.size(LEAST)} or more"
            raise ValueError(f"--memory-limit: found {args.memory_limit!r}, {expected}")
    path = args.output
    if path.suffix == ".zarr":
        if path.exists():
            raise ValueError(f"-o: found {path}, which exists, expected a new name: a store is never replaced")
        _terminal.check_place("-o", path, _place(path))
    for parent in _place(path).parents:
        if _is_node(parent):
            raise ValueError(f"-o: found {path}, inside of the store {parent.name}, expected a place of its own")


def _path(name: str) -> Path:
    """Return the directory that a name says: of a store, or of an array in it."""
    return Path(re.sub(r"\.zarr:", ".zarr/", name, count=1))


def _is_node(path: Path) -> bool:
    return any((path / name).is_file() for name in METADATA)


def _is_store(name: str) -> bool:
    if re.search(r"\.np[yz](:|$)", name):
        return False
    path = _path(name)
    return any(part.endswith(".zarr") for part in path.parts) or _is_node(path)


def _open(name: str) -> Any:
    """Return the array that a name says: ``STORE.zarr``, or ``STORE.zarr:NAME`` and ``STORE.zarr/NAME`` in a group."""
    import zarr

    path = _path(name)
    whole, member = (path, "") if _is_node(path) else (path.parent, path.name)
    if not _is_node(whole):
        if path.is_dir():
            raise ValueError(f"{name}: found a directory without zarr's metadata, expected a zarr array or group")
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), name)
    try:
        node = zarr.open(str(whole), mode="r")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{name}: {error}, expected a zarr array or group") from None
    if isinstance(node, zarr.Array):
        if member:
            raise ValueError(f"{name}: found an array, not a group, at {whole}, expected its name alone")
        return node
    found = sorted(node.array_keys())
    if not member and len(found) == 1:
        return node[found[0]]
    raise ValueError(f"{name}: found the arrays {', '.join(found) or '(none)'}, expected the name of one: {whole}:NAME")


class _File:
    """An array in a file, as Dask takes it: each task maps it anew, also in another process."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.shape, self.dtype, self.ndim, self.nbytes = source.shape, source.dtype, len(source.shape), source.nbytes

    def __getitem__(self, part: Any) -> Array:
        found: Array = self.source.map()[part]
        return found

    def __setitem__(self, part: Any, value: Any) -> None:
        self.source.map("r+")[part] = value


@contextmanager
def _new_file(path: Path, arrays: dict[str, Any], sources: Sequence[Source]) -> Iterator[list[Any]]:
    """Yield what the arrays are written to in the block: the members of a file."""
    with Results(path, sources) as results:
        for name, array in arrays.items():
            results.add(name, array.shape, array.dtype)
        results.make()
        yield list(map(_File, results.members.values()))


def _place(path: Path) -> Path:
    """Return the path to write, which is not a link to it."""
    return Path(os.path.realpath(path))


@contextmanager
def _new_store(path: Path, arrays: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield what the arrays are written to: a temporary store beside the one that it becomes when all went well."""
    import zarr

    place = _place(path)
    whole = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        places = {name: whole / name if len(arrays) > 1 else whole for name in arrays}
        if len(arrays) > 1:
            zarr.open_group(str(whole), mode="w")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of dtypes that other programs may not read
            yield [_new_array(path, places[name], array) for name, array in arrays.items()]
        whole.rename(place)
    finally:
        shutil.rmtree(whole, ignore_errors=True)


def _new_array(path: Path, place: Path, array: Any) -> Any:
    """Return a new array in a store, with the chunks of a Dask array."""
    import zarr

    chunks = tuple(max(1, sizes[0]) for sizes in array.chunks)
    # Else zarr leaves out a chunk of zeros, and with it the sign of a zero in complex numbers and fields.
    empty = {"write_empty_chunks": True}
    try:
        return zarr.open_array(str(place), mode="w", shape=array.shape, chunks=chunks, dtype=array.dtype, **empty)
    except (TypeError, ValueError) as error:
        raise ValueError(f"-o: found {path}, expected .npy or .npz: zarr cannot hold {array.dtype} ({error})") from None


@contextmanager
def _scheduler(args: argparse.Namespace) -> Iterator[None]:
    """Let Dask compute in the block by the command's options; on the way out nothing runs any more."""
    import dask
    from dask.diagnostics import ProgressBar
    from dask.multiprocessing import RemoteException
    from dask.system import CPU_COUNT

    with ExitStack() as stack:
        lost: Any = ()
        if args.workers:
            from distributed import Client, KilledWorker, LocalCluster

            how = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
            cluster = LocalCluster(args.workers, memory_limit=args.memory_limit or "auto", **how)
            stack.enter_context(Client(stack.enter_context(cluster)))
            lost = KilledWorker
        else:
            scheduler = args.scheduler or "threads"
            stack.enter_context(dask.config.set(scheduler=scheduler, num_workers=args.threads))
            if scheduler == "threads":
                pool = ThreadPoolExecutor(args.threads or CPU_COUNT)
                stack.callback(pool.shutdown, cancel_futures=True)
                stack.enter_context(dask.config.set(pool=pool))
            if not args.quiet and sys.stderr.isatty():
                stack.enter_context(ProgressBar(out=sys.stderr))
        try:
            yield
        except RemoteException as error:  # its text would be a traceback
            raise error.exception from None
        except lost as error:
            expected = "fewer --workers, a larger --memory-limit or smaller chunks"
            raise ValueError(f"--workers: found some that died, as for want of memory, expected {expected}") from error
