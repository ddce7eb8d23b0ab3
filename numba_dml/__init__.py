"""DirectML's gather, scatter and top-k operators as fast, exact NumPy-style functions, compiled by Numba.

Three levels, each usable alone: functions (`gather`, `gather_elements`, `gather_nd`, `scatter_elements`, `scatter_nd`,
`top_k`), descriptors (one class per DirectML struct), and operators compiled from them (`compile_operator`).
"""

from importlib import import_module
from typing import Any

from . import _jit
from ._config import config
from ._dispatch import check
from ._enums import AxisDirection, FeatureLevel, OperatorType, TensorDataType, TensorFlags
from ._errors import DescriptorError
from ._operator import CacheInfo, CompiledOperator, Descriptor, cache_clear, cache_info, compile_operator
from ._pool import MemoryPool, memory_pool
from ._tensor import TensorDesc
from ._version import __version__
from .ops import (
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
    ScatterDesc,
    ScatterElementsDesc,
    ScatterNDDesc,
    TopK,
    TopK1Desc,
    TopKDesc,
    gather,
    gather_elements,
    gather_nd,
    scatter_elements,
    scatter_nd,
    top_k,
)

__all__ = [
    "AxisDirection",
    "CacheInfo",
    "CompiledOperator",
    "Descriptor",
    "DescriptorError",
    "FeatureLevel",
    "GatherDesc",
    "GatherElementsDesc",
    "GatherND1Desc",
    "GatherNDDesc",
    "MemoryPool",
    "OperatorType",
    "ScatterDesc",
    "ScatterElementsDesc",
    "ScatterNDDesc",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TopK",
    "TopK1Desc",
    "TopKDesc",
    "__version__",
    "cache_clear",
    "cache_info",
    "check",
    "compile_operator",
    "config",
    "gather",
    "gather_elements",
    "gather_nd",
    "memory_pool",
    "scatter_elements",
    "scatter_nd",
    "top_k",
]

_jit.register_if_imported()


def __getattr__(name: str) -> Any:
    """Import a module when it is first used: `onnx` needs a package of that name, and both take their time."""
    if name in ("numpy", "onnx"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
