"""numba-cuda: imported here first, or an error that says what is missing."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from ..._jit.waiting import require_jit

_INSTALL = 'pip install "numba-cuda[cu13]" "numpy<2.5" (or [cu12], whichever the driver supports)'


def _load() -> Any:
    """Import numba-cuda, or say what is missing."""
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
            if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") in ("", "0"):
                import numba.cuda.np.arrayobj  # noqa: F401
        return cuda
    except ImportError as error:
        raise RuntimeError(f"target 'cuda': numba-cuda cannot be loaded ({error}): {_INSTALL}") from error
    finally:
        if missing:
            del vars(np)["row_stack"]


require_jit()
cuda = _load()
#: Kernels run in numba-cuda's simulator, on the host.
SIMULATED: bool = bool(cuda.core.config.ENABLE_CUDASIM)

if not cuda.is_available():
    raise RuntimeError("target 'cuda': no GPU can be used (is there one, and does its driver work? see nvidia-smi)")


#: Threads per block, and of a warp. In the simulator each is a thread of the system, so they are few: two warps of two.
BLOCK = 4 if SIMULATED else 256
LANES = 2 if SIMULATED else 32
