"""``info``: versions, processor, threads, cache, GPU."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .._core import config
from .._core.pool import memory_pool
from .._version import __version__
from . import _terminal

PACKAGES = ("numpy", "numba", "llvmlite", "numba-cuda")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def installed(package: str) -> str | None:
    """Return the version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """Return the name of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def layer() -> str:
    """Return the threading layer of Numba; it is started for that."""
    import numba

    try:
        numba.set_num_threads(numba.get_num_threads())
        return str(numba.threading_layer())
    except (ValueError, RuntimeError) as error:
        return f"none ({error})"


def gpu() -> tuple[bool, str]:
    """Tell whether a GPU can be used, in a sentence."""
    try:
        from ..cuda.driver.numba import SIMULATED, cuda

        if SIMULATED:
            return True, "numba-cuda's simulator runs the kernels on the host"
        device = cuda.get_current_device()
        name = device.name.decode() if isinstance(device.name, bytes) else device.name
        major, minor = device.compute_capability
        return True, f"{name} (compute capability {major}.{minor}) can be used"
    except Exception as error:  # whatever a driver says is the verdict
        return False, str(error).removeprefix("target 'cuda': ")


def collect() -> dict[str, Any]:
    """Return everything that is told."""
    import numba

    from . import cache

    usable, verdict = gpu()
    here = config.current()
    return {
        "numba_dml": __version__,
        "python": platform.python_version(),
        **{package: installed(package) for package in PACKAGES},
        "system": platform.platform(),
        "processor": processor(),
        "cores": cores(),
        "threads": min(numba.config.NUMBA_NUM_THREADS, here.threads or sys.maxsize),
        "threading_layer": layer(),
        "defaults": here._asdict(),
        "pool_bytes": memory_pool.limit,
        "cache": cache.state("cpu"),
        "gpu": {"usable": usable, "verdict": verdict},
    }


def run(args: argparse.Namespace) -> int:
    """Print what is known."""
    from . import cache

    found = collect()
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    set_here = {name: value for name, value in found["defaults"].items() if value not in (None, False)}
    versions = ", ".join(f"{name} {found[name] or 'not installed'}" for name in ("numba_dml", "python", *PACKAGES))
    _terminal.print_facts(
        [
            ("versions", versions),
            ("system", found["system"]),
            ("processor", f"{found['processor']}, {found['cores']} cores for this process"),
            ("threads", f"{found['threads']}, threading layer {found['threading_layer']}"),
            ("defaults", ", ".join(f"{name}={value}" for name, value in set_here.items()) or "none set"),
            ("memory", f"up to {_terminal.size(found['pool_bytes'])} of dead results wait for the next ones"),
            ("cache", cache.sentence(found["cache"])),
            ("GPU", found["gpu"]["verdict"]),
        ]
    )
    return 0
