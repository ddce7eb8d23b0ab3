"""What the processor offers: caches and instructions."""

from __future__ import annotations

import platform
from pathlib import Path

import numba
from llvmlite import binding as llvm
from numba.core.codegen import get_host_cpu_features


def _converts_halves() -> bool:
    """Tell whether the processor that Numba makes code for converts float16: LLVM would call a library elsewhere."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    features = numba.config.CPU_FEATURES
    return "+f16c" in (get_host_cpu_features() if features is None else features)


CACHE_LINE = 64


def cache_bytes(index: int, assumed: int) -> int:
    """Return the size of a core's cache, the L1's for 0 and the L2's for 2, or what is assumed if nobody tells."""
    try:
        text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size").read_text()
        return int(text.strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        return assumed


#: Whether vectors have 512 bits, and there is an instruction for the larger of two int64. (Any code is right on any
#: processor.)
HAS_WIDE_VECTORS = llvm.get_host_cpu_features().get("avx512f", False)
IS_ZEN = llvm.get_host_cpu_name().startswith("znver")


#: Where an ndarray keeps the address of its first element: first, as NumPy's C interface says, on which every module
#: that was compiled for NumPy relies.
DATA_AT = object.__basicsize__
