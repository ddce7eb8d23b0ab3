"""What the NumPy-style functions share: how arguments become descriptors, and how errors name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Signature, cleandoc, signature
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from ..._core.calls import build_call
from ..._core.descriptor import Descriptor
from ..._core.errors import DescriptorError
from ..._core.operands import check_same_type, mask_hint, update_array
from ..._core.shapes import axis_from_start
from ..._core.spec import Spec
from ..._core.tensor import TensorDesc, normalize_data_type

F = TypeVar("F", bound=Callable[..., Any])


def normalize_axis(function: str, axis: int, ndim: int) -> int:
    """Return a non-negative axis; an array without any is refused."""
    check_not_scalar(function, ndim)
    found = axis_from_start(axis, ndim)
    if found < 0:
        raise ValueError(
            f"{function}: axis: found {axis}, expected {-ndim} to {ndim - 1} for an array with {ndim} dimension"
            + ("s" if ndim > 1 else "")
        )
    return found


def check_data(function: str, name: str, dtype: np.dtype[Any]) -> Any:
    """Return the data type of elements; refuse those that are neither numbers nor fixed-size bytes."""
    try:
        return normalize_data_type(dtype)
    except DescriptorError as error:
        raise TypeError(f"{function}: {name}: found dtype {error.found}, expected {error.expected}") from None


def check_among(function: str, name: str, dtype: np.dtype[Any], kinds: frozenset[Any], expected: str) -> Any:
    """Return the data type of elements, which is one of some kinds."""
    try:
        kind = normalize_data_type(dtype)
    except DescriptorError:
        kind = dtype
    if kind not in kinds:
        raise TypeError(f"{function}: {name}: found dtype {dtype}, expected {expected}")
    return kind


def check_indices(function: str, dtype: np.dtype[Any], argument: str = "indices") -> None:
    """Refuse indices that are not integers."""
    if dtype.kind not in "iu":
        hint = mask_hint(function) if dtype.kind == "b" else ""
        raise TypeError(f"{function}: {argument}: found dtype {dtype}, expected an integer dtype{hint}")


class Exact:
    """A scalar in the key of a call: it tells 0 from -0, 1 from True, and NaNs by their bits."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        if isinstance(value, np.ndarray):  # the caller may change it
            value = value.copy()
        array = np.asarray(value)
        self.value, self.key = value, (value.__class__, array.dtype, array.shape, array.tobytes())

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self.key == other.key


def exact(value: Any) -> Any:
    """Return what stands for a scalar in the key of a call."""
    return value if value.__class__ is int else Exact(value)


class Bound:
    """A call that knows its last input, which is the same for all calls of a function with this key."""

    def __init__(self, call: Any, values: np.ndarray[Any, Any]) -> None:
        self.call, self.values = call, values

    def __call__(self, *arrays: Any) -> Any:
        *inputs, out = arrays
        return self.call(*inputs, self.values, out)

    def repeat(self, *arrays: Any, out: Any) -> Any:
        """Make the call again with arrays on a device; see `cuda.replay`."""
        return self.call.repeat(*arrays, out=out)


def single_value(function: str, argument: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a scalar as an array of a dtype; Python's own numbers are converted if they fit, nothing else is."""
    if isinstance(value, Exact):
        value = value.value
    if value.__class__ is int and value in (0, 1):
        if dtype.kind == "b":
            value = bool(value)
        elif dtype.isbuiltin == 2 and (made := np.asarray(value).astype(dtype)) == value:  # of ml_dtypes
            return made
    if hasattr(value, "dtype"):
        check_same_type(function, np.asarray(value).dtype, dtype, argument, "the result")
    found = update_array(function, value, dtype, argument)
    check_same_type(function, found.dtype, dtype, argument, "the result")
    if found.ndim:
        raise ValueError(f"{function}: {argument}: found shape {found.shape}, expected a single value")
    return found.astype(dtype)


def index_type(function: str, given: Any) -> np.dtype[Any]:
    """Return the dtype of positions that a function returns."""
    try:
        found = np.dtype(np.intp if given is None else given)
    except TypeError:
        raise TypeError(f"{function}: index_dtype: found {given!r}, expected an integer dtype") from None
    if found.kind not in "iu" or not found.isnative:
        raise TypeError(f"{function}: index_dtype: found {found}, expected a native integer dtype")
    return found


def check_not_scalar(function: str, ndim: int) -> None:
    """Refuse a 0-d input."""
    if ndim == 0:
        raise ValueError(f"{function}: a: found 0 dimensions, expected at least 1")


class MoveDescriptor(Descriptor):
    """What the descriptors of all gathers and scatters share."""

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    bounds: str
    #: Of a gather.
    reduction = "none"
    unique = False


class Array(NamedTuple):
    """An input of a call, as its descriptor sees it."""

    kind: Any
    shape: tuple[int, ...]


def padded(*arrays: Array) -> tuple[int, list[TensorDesc]]:
    """Return the common DimensionCount of arrays, and their descriptions with as many leading 1s as it needs."""
    rank = max(len(array.shape) for array in arrays)
    return rank, [TensorDesc(kind, (1,) * (rank - len(shape)) + shape) for kind, shape in arrays]


def builds(
    spec: Spec, arguments: dict[str, str], kind_of: Callable[[str, str, np.dtype[Any]], Any] = check_data
) -> Callable[[F], F]:
    """Decorate ``describe(*arrays, *parameters)``, which returns a descriptor and the shapes of the results.

    What is returned builds the call for the layouts of arrays: each array's shape, strides and dtype, the tuple of
    parameters, and the target; of an operator that writes the strides of `out` come first. Errors name the function's
    arguments.
    """
    count, has_bounds = len(spec.inputs), [one.name for one in spec.parameters[-1:]] == ["bounds"]

    def decorate(describe: F) -> F:
        def described(shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]], given: Any) -> Any:
            parameters = list(given)
            kinds = [kind_of(spec.name, "a", dtypes[0]), *dtypes[1:]]
            if count > 1:
                check_indices(spec.name, dtypes[1], spec.inputs[1])
            if count > 2:
                check_same_type(spec.name, dtypes[2], dtypes[0])
                kinds[2] = kinds[0]
            if has_bounds and parameters[-1] is None:
                parameters[-1] = "raise"
            try:
                descriptor, *results = describe(*map(Array, kinds, shapes), *parameters)
            except DescriptorError as error:
                raise error.for_function(spec.name, arguments) from None
            return descriptor, tuple(results)

        @wraps(describe)
        def build(*key: Any) -> Any:
            out_layout: Any = None
            if spec.writes:
                out_layout, *key = key  # type: ignore[assignment]
            shapes, strides, dtypes = [key[field : 3 * count : 3] for field in range(3)]
            given, target = key[3 * count :]
            descriptor, results = described(shapes, dtypes, given)
            rank = getattr(descriptor, descriptor.input_fields[0]).dimension_count
            layouts = tuple([((0,) * (rank - len(s)) + s, dtype) for s, dtype in zip(strides, dtypes, strict=True)])
            if out_layout is not None:
                out_layout = (0,) * (rank - len(shapes[0])) + out_layout
            return build_call(target, descriptor, layouts, results, out_layout)

        spec.build, spec.describe = build, described
        return build  # type: ignore[return-value]

    return decorate


def refuse_positional(function: str, count: int, name: str, values: Sequence[Any]) -> NoReturn:
    """Refuse arguments after the first `count`, which are given by name."""
    hint = f"write {name}={values[0]!r}" if isinstance(values[0], int) else f"write {name}=... and so on"
    raise TypeError(f"{function}: found {count + len(values)} positional arguments, expected {count} ({hint})")


#: What the docstrings of functions say of the parameters that they share, by the words that stand for it there.
_SHARED = {
    "where": """target : {"cpu", "cuda"}, optional
    Where to run. It follows the arrays when absent (but for `numba_dml.config`): those on a device run there, on
    their library's current stream, and the result is that library's. ``"cuda"`` copies arrays in host memory in and
    out.
stream : stream of any CUDA library, or its address, optional
    For arrays on a device: another stream to run on. It waits for their library's, which then waits for it.""",
    "reads": """out : ndarray, optional
    Where to write: exactly the result's shape and dtype. It may overlap the inputs.
bounds : {"raise", "clamp", "drop", "deferred"}, optional
    For an index out of range: raise before a result is seen (when absent too, but for `numba_dml.config`); wrap a
    negative once and clamp (DirectML's reads); give 0; or raise later, at `numba_dml.check` (on a device: it gives
    0; on the CPU as raise).""",
    "writes": """out : ndarray, optional
    Where to write: the shape of `a`, and its dtype in native byte order. ``out=a`` updates in place, after all indices
    are validated.
bounds : {"raise", "drop", "deferred"}, optional
    For an index out of range: raise, in place before anything is written (when absent too, but for
    `numba_dml.config`); skip the update; or skip it and raise later, at `numba_dml.check` (on the CPU as raise).""",
    "reduction": """reduction : {"none", "add", "mul", "min", "max"}
    How an update meets the value already there: replace it, or combine with it. ``min`` and ``max`` propagate NaN;
    of equal values (-0 and +0) the one already there stays.""",
}


def public(*hidden: str) -> Callable[[F], F]:
    """Complete a function's docstring, and leave parameters for error messages out of its signature."""

    def decorate(function: F) -> F:
        text = cleandoc(function.__doc__ or "")
        for name, shared in _SHARED.items():
            text = text.replace("{" + name + "}", shared)
        function.__doc__ = text + "\n"
        shown = [p for p in signature(function).parameters.values() if p.name not in hidden]
        function.__signature__ = Signature(shown)  # type: ignore[attr-defined]
        return function

    return decorate
