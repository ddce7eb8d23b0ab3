"""Fast, exact gather, scatter and top-k for NumPy-style arrays, on CPUs and NVIDIA GPUs, compiled by Numba.

Three levels, each usable alone: functions (such as `gather`, `scatter_nd` and `top_k`), descriptors (one class per
DirectML struct), and operators compiled from them (`compile_operator`).
"""

from importlib import import_module
from typing import Any

from . import _overloads, ops
from ._core import targets
from ._core.calls import CacheInfo, cache_info
from ._core.config import config
from ._core.descriptor import Descriptor
from ._core.enums import AxisDirection, FeatureLevel, OperatorType, TensorDataType, TensorFlags
from ._core.errors import DescriptorError
from ._core.operator import CompiledOperator, cache_clear, compile_operator
from ._core.pool import MemoryPool, memory_pool
from ._core.targets import check
from ._core.tensor import TensorDesc
from ._version import __version__
from .ops import *  # noqa: F403

__all__ = [
    "AxisDirection",
    "CacheInfo",
    "CompiledOperator",
    "Descriptor",
    "DescriptorError",
    "FeatureLevel",
    "MemoryPool",
    "OperatorType",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "__version__",
    "cache_clear",
    "cache_info",
    "check",
    "compile_operator",
    "config",
    "memory_pool",
    *ops.__all__,
]

_overloads.register_if_imported()
targets.before_first_use.append(_overloads.register)


def __getattr__(name: str) -> Any:
    """Import a module when it is first used: `onnx` and `dask` need packages of that name, and all take their time."""
    if name in ("dask", "numpy", "onnx"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
