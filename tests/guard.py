"""Run Python under a memory allocator that stops the process when a block is read or written past its ends.

``python -m tests.guard [--side low] -m pytest -p no:faulthandler tests/test_top_k.py`` puts arrays, and the buffers of
kernels, flush against a page that may not be touched: behind them, or with ``--side low`` before them. It needs Linux
on x86-64 and a C compiler. (pytest's fault handler would hide which block it was.)
"""

import argparse
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import llvmlite.binding
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python, rtsys

SOURCE = Path(__file__).with_name("guard.c")


def missing():
    """Return why there is no guard here, or an empty string."""
    if sys.platform != "linux" or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc":
        return "the guard is for Linux on x86-64 with glibc"
    return "" if shutil.which("cc") else "the guard needs a C compiler, cc"


@cache
def _folder():
    return tempfile.TemporaryDirectory()


@cache
def library():
    """Build the guard, and return its path."""
    path = Path(_folder().name, "guard.so")
    subprocess.run(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"], check=True)
    return path


def run(*arguments, side="high", **options):
    """Run Python with these arguments under the guard; `options` are those of `subprocess.run`."""
    environment = options.pop("env", os.environ) | {"LD_PRELOAD": str(library()), "GUARD_SIDE": side}
    return subprocess.run([sys.executable, *arguments], env=environment, check=False, **options)


def mark_arrays():
    """Tell the guard which blocks of Numba's are arrays: the data of these end before their block does."""
    guard, runtime = ctypes.CDLL(None), _nrt_python.c_helpers
    rtsys.initialize(cpu_target.target_context)
    for name in ("aligned", "safe_aligned"):
        ctypes.c_void_p.in_dll(guard, f"guard_real_{name}").value = runtime[f"MemInfo_alloc_{name}"]
        ours = ctypes.cast(getattr(guard, f"guard_{name}"), ctypes.c_void_p).value
        llvmlite.binding.add_symbol(f"NRT_MemInfo_alloc_{name}", ours)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.guard", description=__doc__.partition("\n")[0])
    parser.add_argument("--side", choices=["high", "low"], default="high", help="of blocks that is flush with a page")
    known, rest = parser.parse_known_args()
    if missing():
        parser.error(missing())
    sys.exit(run(*rest, side=known.side).returncode)
