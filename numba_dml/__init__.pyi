# The public names, with what no annotation of theirs can tell: which type of array comes back.
from collections.abc import Sequence
from contextlib import ContextDecorator
from typing import Any, Generic, Literal, NamedTuple, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import dask as dask
from . import numpy as numpy
from . import onnx as onnx
from ._core.calls import CacheInfo as CacheInfo
from ._core.calls import cache_info as cache_info
from ._core.descriptor import Descriptor as Descriptor
from ._core.enums import AxisDirection as AxisDirection
from ._core.enums import FeatureLevel as FeatureLevel
from ._core.enums import OperatorType as OperatorType
from ._core.enums import TensorDataType as TensorDataType
from ._core.enums import TensorFlags as TensorFlags
from ._core.errors import DescriptorError as DescriptorError
from ._core.operator import CompiledOperator as CompiledOperator
from ._core.operator import cache_clear as cache_clear
from ._core.pool import MemoryPool as MemoryPool
from ._core.pool import memory_pool as memory_pool
from ._core.targets import check as check
from ._core.tensor import TensorDesc as TensorDesc
from .ops import ArgmaxDesc as ArgmaxDesc
from .ops import ArgminDesc as ArgminDesc
from .ops import CumulativeProductDesc as CumulativeProductDesc
from .ops import CumulativeSummationDesc as CumulativeSummationDesc
from .ops import GatherDesc as GatherDesc
from .ops import GatherElementsDesc as GatherElementsDesc
from .ops import GatherND1Desc as GatherND1Desc
from .ops import GatherNDDesc as GatherNDDesc
from .ops import MaxUnpoolingDesc as MaxUnpoolingDesc
from .ops import NonzeroCoordinatesDesc as NonzeroCoordinatesDesc
from .ops import OneHotDesc as OneHotDesc
from .ops import ReverseSubsequencesDesc as ReverseSubsequencesDesc
from .ops import ScatterDesc as ScatterDesc
from .ops import ScatterElementsDesc as ScatterElementsDesc
from .ops import ScatterNDDesc as ScatterNDDesc
from .ops import TopK1Desc as TopK1Desc
from .ops import TopKDesc as TopKDesc

__version__: str

class _Lends(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...

class _Shows(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...

_T = TypeVar("_T", bound=np.generic)
_I = TypeVar("_I", bound=np.integer[Any])
_F = TypeVar("_F", bound=np.inexact[Any])
_D = TypeVar("_D", bound=_Lends | _Shows)  # an array on a device
_O = TypeVar("_O")
_P = TypeVar("_P")
_V = TypeVar("_V")
_W = TypeVar("_W")
_Bounds: TypeAlias = Literal["raise", "clamp", "drop", "deferred"]
_ScatterBounds: TypeAlias = Literal["raise", "drop", "deferred"]  # an update would go where nobody sent it
_ReverseBounds: TypeAlias = Literal["raise", "clamp"]
_Reduction: TypeAlias = Literal["none", "add", "mul", "min", "max"]
_Mode: TypeAlias = Literal["largest", "smallest"]
_Nan: TypeAlias = Literal["last", "largest", "first"]
_Ties: TypeAlias = Literal["first", "last"]
_Target: TypeAlias = Literal["cpu", "cuda"]

class Nonzero(NamedTuple, Generic[_V]):
    count: _V  # type: ignore[assignment]  # a tuple's method
    coordinates: _V

class TopK(NamedTuple, Generic[_V, _W]):
    values: _V
    indices: _W

class _Config(ContextDecorator):
    def __enter__(self) -> None: ...
    def __exit__(self, *_: Any) -> None: ...

def config(
    *,
    target: _Target | None = ...,
    bounds: _Bounds | None = ...,
    threads: SupportsIndex | None = ...,
    quiet: bool = ...,
) -> _Config: ...
@overload
def gather(
    a: NDArray[_T],
    indices: ArrayLike,
    *,
    axis: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def gather(
    a: _D,
    indices: Any,
    *,
    axis: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def gather(
    a: ArrayLike,
    indices: ArrayLike,
    *,
    axis: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def gather(
    a: Any,
    indices: Any,
    *,
    axis: SupportsIndex = ...,
    out: _O,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def gather_elements(
    a: NDArray[_T],
    indices: ArrayLike,
    *,
    axis: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def gather_elements(
    a: _D,
    indices: Any,
    *,
    axis: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def gather_elements(
    a: ArrayLike,
    indices: ArrayLike,
    *,
    axis: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def gather_elements(
    a: Any,
    indices: Any,
    *,
    axis: SupportsIndex = ...,
    out: _O,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def gather_nd(
    a: NDArray[_T],
    indices: ArrayLike,
    *,
    batch_dims: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def gather_nd(
    a: _D,
    indices: Any,
    *,
    batch_dims: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def gather_nd(
    a: ArrayLike,
    indices: ArrayLike,
    *,
    batch_dims: SupportsIndex = ...,
    out: None = ...,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def gather_nd(
    a: Any,
    indices: Any,
    *,
    batch_dims: SupportsIndex = ...,
    out: _O,
    bounds: _Bounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def scatter_elements(
    a: NDArray[_T],
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    axis: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def scatter_elements(
    a: _D,
    indices: Any,
    updates: Any,
    *,
    axis: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def scatter_elements(
    a: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    axis: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def scatter_elements(
    a: Any,
    indices: Any,
    updates: Any,
    *,
    axis: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: _O,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def scatter_nd(
    a: NDArray[_T],
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    batch_dims: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def scatter_nd(
    a: _D,
    indices: Any,
    updates: Any,
    *,
    batch_dims: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def scatter_nd(
    a: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    *,
    batch_dims: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def scatter_nd(
    a: Any,
    indices: Any,
    updates: Any,
    *,
    batch_dims: SupportsIndex = ...,
    reduction: _Reduction = ...,
    unique: bool = ...,
    out: _O,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def top_k(
    a: NDArray[_T],
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    mode: _Mode = ...,
    sorted: bool = ...,
    nan: _Nan = ...,
    index_dtype: None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> TopK[NDArray[_T], NDArray[np.intp]]: ...
@overload
def top_k(
    a: NDArray[_T],
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    mode: _Mode = ...,
    sorted: bool = ...,
    nan: _Nan = ...,
    index_dtype: type[_I] | np.dtype[_I],
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> TopK[NDArray[_T], NDArray[_I]]: ...
@overload
def top_k(
    a: NDArray[_T],
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    mode: _Mode = ...,
    sorted: bool = ...,
    nan: _Nan = ...,
    index_dtype: DTypeLike,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> TopK[NDArray[_T], NDArray[Any]]: ...
@overload
def top_k(
    a: _D,
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    mode: _Mode = ...,
    sorted: bool = ...,
    nan: _Nan = ...,
    index_dtype: DTypeLike = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> TopK[_D, _D]: ...
@overload
def top_k(
    a: ArrayLike,
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    mode: _Mode = ...,
    sorted: bool = ...,
    nan: _Nan = ...,
    index_dtype: DTypeLike = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> TopK[NDArray[Any], NDArray[Any]]: ...
@overload
def top_k(
    a: Any,
    k: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    mode: _Mode = ...,
    sorted: bool = ...,
    nan: _Nan = ...,
    index_dtype: DTypeLike = ...,
    out: tuple[_O, _P],
    target: _Target | None = ...,
    stream: Any = ...,
) -> TopK[_O, _P]: ...
@overload
def max_unpool(
    a: NDArray[_T],
    indices: ArrayLike,
    shape: Sequence[SupportsIndex],
    /,
    *,
    batch_dims: SupportsIndex = ...,
    fill_value: Any = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def max_unpool(
    a: _D,
    indices: Any,
    shape: Sequence[SupportsIndex],
    /,
    *,
    batch_dims: SupportsIndex = ...,
    fill_value: Any = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def max_unpool(
    a: ArrayLike,
    indices: ArrayLike,
    shape: Sequence[SupportsIndex],
    /,
    *,
    batch_dims: SupportsIndex = ...,
    fill_value: Any = ...,
    unique: bool = ...,
    out: None = ...,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def max_unpool(
    a: Any,
    indices: Any,
    shape: Sequence[SupportsIndex],
    /,
    *,
    batch_dims: SupportsIndex = ...,
    fill_value: Any = ...,
    unique: bool = ...,
    out: _O,
    bounds: _ScatterBounds | None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def one_hot(
    indices: ArrayLike,
    depth: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    on_value: Any = ...,
    off_value: Any = ...,
    dtype: type[_T] | np.dtype[_T],
    bounds: _Bounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def one_hot(
    indices: ArrayLike,
    depth: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    on_value: Any = ...,
    off_value: Any = ...,
    dtype: DTypeLike | None = ...,
    bounds: _Bounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def one_hot(
    indices: _D,
    depth: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    on_value: Any = ...,
    off_value: Any = ...,
    dtype: DTypeLike | None = ...,
    bounds: _Bounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def one_hot(
    indices: Any,
    depth: SupportsIndex,
    /,
    *,
    axis: SupportsIndex = ...,
    on_value: Any = ...,
    off_value: Any = ...,
    dtype: DTypeLike | None = ...,
    bounds: _Bounds | None = ...,
    out: _O,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def reverse_subsequences(
    a: NDArray[_T],
    lengths: ArrayLike,
    /,
    *,
    axis: SupportsIndex = ...,
    bounds: _ReverseBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[_T]: ...
@overload
def reverse_subsequences(
    a: _D,
    lengths: Any,
    /,
    *,
    axis: SupportsIndex = ...,
    bounds: _ReverseBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def reverse_subsequences(
    a: ArrayLike,
    lengths: ArrayLike,
    /,
    *,
    axis: SupportsIndex = ...,
    bounds: _ReverseBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def reverse_subsequences(
    a: Any,
    lengths: Any,
    /,
    *,
    axis: SupportsIndex = ...,
    bounds: _ReverseBounds | None = ...,
    out: _O,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _O: ...
@overload
def nonzero_coordinates(
    a: NDArray[Any],
    /,
    *,
    size: None = ...,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def nonzero_coordinates(
    a: _D,
    /,
    *,
    size: None = ...,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> _D: ...
@overload
def nonzero_coordinates(
    a: ArrayLike,
    /,
    *,
    size: None = ...,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> NDArray[Any]: ...
@overload
def nonzero_coordinates(
    a: NDArray[Any],
    /,
    *,
    size: SupportsIndex,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> Nonzero[NDArray[Any]]: ...
@overload
def nonzero_coordinates(
    a: _D,
    /,
    *,
    size: SupportsIndex,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> Nonzero[_D]: ...
@overload
def nonzero_coordinates(
    a: ArrayLike,
    /,
    *,
    size: SupportsIndex,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: None = ...,
    target: _Target | None = ...,
    stream: Any = ...,
) -> Nonzero[NDArray[Any]]: ...
@overload
def nonzero_coordinates(
    a: Any,
    /,
    *,
    size: SupportsIndex | None = ...,
    fill_value: SupportsIndex = ...,
    index_dtype: DTypeLike = ...,
    bounds: _ScatterBounds | None = ...,
    out: tuple[_O, _O],
    target: _Target | None = ...,
    stream: Any = ...,
) -> Nonzero[_O]: ...

class _ArgExtreme(Protocol):
    @overload
    def __call__(
        self,
        a: NDArray[Any],
        /,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = ...,
        keepdims: bool = ...,
        ties: _Ties = ...,
        nan: _Nan = ...,
        index_dtype: None = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[np.intp]: ...
    @overload
    def __call__(
        self,
        a: NDArray[Any],
        /,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = ...,
        keepdims: bool = ...,
        ties: _Ties = ...,
        nan: _Nan = ...,
        index_dtype: type[_I] | np.dtype[_I],
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[_I]: ...
    @overload
    def __call__(
        self,
        a: NDArray[Any],
        /,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = ...,
        keepdims: bool = ...,
        ties: _Ties = ...,
        nan: _Nan = ...,
        index_dtype: DTypeLike | None = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        a: _D,
        /,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = ...,
        keepdims: bool = ...,
        ties: _Ties = ...,
        nan: _Nan = ...,
        index_dtype: DTypeLike | None = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> _D: ...
    @overload
    def __call__(
        self,
        a: ArrayLike,
        /,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = ...,
        keepdims: bool = ...,
        ties: _Ties = ...,
        nan: _Nan = ...,
        index_dtype: DTypeLike | None = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        a: Any,
        /,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = ...,
        keepdims: bool = ...,
        ties: _Ties = ...,
        nan: _Nan = ...,
        index_dtype: DTypeLike | None = ...,
        out: _O,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> _O: ...

argmax: _ArgExtreme
argmin: _ArgExtreme

class _Cumulative(Protocol):
    @overload
    def __call__(
        self,
        a: NDArray[_F],
        /,
        *,
        axis: SupportsIndex | None = ...,
        dtype: None = ...,
        include_initial: bool = ...,
        exclusive: bool = ...,
        reverse: bool = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[_F]: ...
    @overload
    def __call__(
        self,
        a: ArrayLike,
        /,
        *,
        axis: SupportsIndex | None = ...,
        dtype: type[_T] | np.dtype[_T],
        include_initial: bool = ...,
        exclusive: bool = ...,
        reverse: bool = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[_T]: ...
    @overload
    def __call__(
        self,
        a: NDArray[Any],
        /,
        *,
        axis: SupportsIndex | None = ...,
        dtype: DTypeLike | None = ...,
        include_initial: bool = ...,
        exclusive: bool = ...,
        reverse: bool = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        a: _D,
        /,
        *,
        axis: SupportsIndex | None = ...,
        dtype: DTypeLike | None = ...,
        include_initial: bool = ...,
        exclusive: bool = ...,
        reverse: bool = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> _D: ...
    @overload
    def __call__(
        self,
        a: ArrayLike,
        /,
        *,
        axis: SupportsIndex | None = ...,
        dtype: DTypeLike | None = ...,
        include_initial: bool = ...,
        exclusive: bool = ...,
        reverse: bool = ...,
        out: None = ...,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self,
        a: Any,
        /,
        *,
        axis: SupportsIndex | None = ...,
        dtype: DTypeLike | None = ...,
        include_initial: bool = ...,
        exclusive: bool = ...,
        reverse: bool = ...,
        out: _O,
        target: _Target | None = ...,
        stream: Any = ...,
    ) -> _O: ...

cumulative_prod: _Cumulative
cumulative_sum: _Cumulative

# What `compile_operator` returns: a CompiledOperator, and how it is called.
class _GatherOperator(CompiledOperator):  # a, indices
    @overload
    def __call__(self, a: NDArray[_T], indices: ArrayLike, *, out: None = ..., stream: Any = ...) -> NDArray[_T]: ...
    @overload
    def __call__(self, a: _D, indices: Any, *, out: None = ..., stream: Any = ...) -> _D: ...
    @overload
    def __call__(self, a: ArrayLike, indices: ArrayLike, *, out: None = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: Any, indices: Any, *, out: _O, stream: Any = ...) -> _O: ...

class _OneHotOperator(CompiledOperator):  # indices, values
    @overload
    def __call__(
        self, indices: ArrayLike, values: NDArray[_T], /, *, out: None = ..., stream: Any = ...
    ) -> NDArray[_T]: ...
    @overload
    def __call__(self, indices: _D, values: _D, /, *, out: None = ..., stream: Any = ...) -> _D: ...
    @overload
    def __call__(self, indices: Any, values: Any, /, *, out: _O, stream: Any = ...) -> _O: ...

class _ScatterOperator(CompiledOperator):  # a, indices, updates
    @overload
    def __call__(
        self, a: NDArray[_T], indices: ArrayLike, updates: ArrayLike, *, out: None = ..., stream: Any = ...
    ) -> NDArray[_T]: ...
    @overload
    def __call__(self, a: _D, indices: Any, updates: Any, *, out: None = ..., stream: Any = ...) -> _D: ...
    @overload
    def __call__(
        self, a: ArrayLike, indices: ArrayLike, updates: ArrayLike, *, out: None = ..., stream: Any = ...
    ) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: Any, indices: Any, updates: Any, *, out: _O, stream: Any = ...) -> _O: ...

class _ArgExtremeOperator(CompiledOperator):  # a
    @overload
    def __call__(self, a: NDArray[Any], *, out: None = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: _D, *, out: None = ..., stream: Any = ...) -> _D: ...
    @overload
    def __call__(self, a: ArrayLike, *, out: None = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: Any, *, out: _O, stream: Any = ...) -> _O: ...

class _CumulativeOperator(CompiledOperator):  # a
    @overload
    def __call__(self, a: NDArray[_T], *, out: None = ..., stream: Any = ...) -> NDArray[_T]: ...
    @overload
    def __call__(self, a: _D, *, out: None = ..., stream: Any = ...) -> _D: ...
    @overload
    def __call__(self, a: ArrayLike, *, out: None = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: Any, *, out: _O, stream: Any = ...) -> _O: ...

class _NonzeroOperator(CompiledOperator):  # a
    @overload
    def __call__(self, a: NDArray[Any], *, out: None = ..., stream: Any = ...) -> Nonzero[NDArray[Any]]: ...
    @overload
    def __call__(self, a: _D, *, out: None = ..., stream: Any = ...) -> Nonzero[_D]: ...
    @overload
    def __call__(self, a: ArrayLike, *, out: None = ..., stream: Any = ...) -> Nonzero[NDArray[Any]]: ...
    @overload
    def __call__(self, a: Any, *, out: tuple[_O, _O], stream: Any = ...) -> Nonzero[_O]: ...

class _TopKOperator(CompiledOperator):  # a
    @overload
    def __call__(self, a: NDArray[_T], *, out: None = ..., stream: Any = ...) -> TopK[NDArray[_T], NDArray[Any]]: ...
    @overload
    def __call__(self, a: _D, *, out: None = ..., stream: Any = ...) -> TopK[_D, _D]: ...
    @overload
    def __call__(self, a: ArrayLike, *, out: None = ..., stream: Any = ...) -> TopK[NDArray[Any], NDArray[Any]]: ...
    @overload
    def __call__(self, a: Any, *, out: tuple[_O, _P], stream: Any = ...) -> TopK[_O, _P]: ...

@overload
def compile_operator(
    descriptor: GatherDesc | GatherElementsDesc | GatherNDDesc | GatherND1Desc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _GatherOperator: ...
@overload
def compile_operator(
    descriptor: ScatterElementsDesc | ScatterNDDesc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _ScatterOperator: ...
@overload
def compile_operator(
    descriptor: ArgmaxDesc | ArgminDesc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _ArgExtremeOperator: ...
@overload
def compile_operator(
    descriptor: CumulativeProductDesc | CumulativeSummationDesc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _CumulativeOperator: ...
@overload
def compile_operator(
    descriptor: MaxUnpoolingDesc | ReverseSubsequencesDesc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _GatherOperator: ...
@overload
def compile_operator(
    descriptor: OneHotDesc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _OneHotOperator: ...
@overload
def compile_operator(
    descriptor: NonzeroCoordinatesDesc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _NonzeroOperator: ...
@overload
def compile_operator(
    descriptor: TopKDesc | TopK1Desc,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> _TopKOperator: ...
@overload
def compile_operator(
    descriptor: Descriptor,
    *,
    target: _Target | None = ...,
    feature_level: FeatureLevel | int | None = ...,
) -> Any: ...
