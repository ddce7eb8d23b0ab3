"""numba-cuda: imported here first, or an error that says what is missing."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..._jit.waiting import require_jit

_INSTALL = 'pip install "numba-cuda[cu13]" "numpy<2.5" (or [cu12], whichever the driver supports)'


def _load() -> tuple[Any, ...]:
    """Import numba-cuda, what a GPU's code is made of and the driver's functions, or say what is missing."""
    # numba-cuda 0.30 looks up a name that NumPy 2.5 has dropped. The extras pin an older NumPy, but GPU images ship
    # that pair; so the name is there while the module that wants it loads, and only then.
    missing = not hasattr(np, "row_stack")
    if missing:
        vars(np)["row_stack"] = np.vstack
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # numba-cuda's own, with NumPy 2.5
            from numba import cuda

            if getattr(cuda, "implementation", None) != "NVIDIA":  # Numba's own, which is older
                raise RuntimeError(f"target 'cuda': the package numba-cuda is missing: {_INSTALL}")
            if cuda.core.config.ENABLE_CUDASIM:  # which has nothing else
                return cuda, True, *[None] * 6
            from cuda.bindings import driver
            from llvmlite import ir
            from numba.cuda import cgutils, types
            from numba.cuda.extending import intrinsic
            from numba.cuda.np import arrayobj

            return cuda, False, driver, ir, cgutils, types, intrinsic, arrayobj
    except ImportError as error:
        raise RuntimeError(f"target 'cuda': numba-cuda cannot be loaded ({error}): {_INSTALL}") from error
    finally:
        if missing:
            del vars(np)["row_stack"]


require_jit()
cuda, SIMULATED, driver, ir, cgutils, types, intrinsic, arrayobj = _load()

if not cuda.is_available():
    raise RuntimeError("target 'cuda': no GPU can be used (is there one, and does its driver work? see nvidia-smi)")


#: Threads per block, and of a warp. In the simulator each is a thread of the system, so they are few: two warps of two.
BLOCK, LANES = ((256, 32), (4, 2))[SIMULATED]
#: Warps of such a block.
WARPS = BLOCK // LANES
