"""The arguments of a call as arrays that its target takes, and the checks of outputs that callers give."""

from __future__ import annotations

from array import array as typed_array
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from numpy import ndarray

from . import targets
from .descriptor import MAX_DIMENSIONS
from .devices.arrays import DeviceArray, stream_pointer
from .devices.libraries import library_of, library_of_type
from .spec import OPERATORS
from .tensor import elements_overlap, native_dtype

INDICES = ("indices", "lengths")  #: the arguments that hold integers which lead to places


def output_pair(function: str, out: Any, names: str) -> Sequence[Any]:
    """Return two outputs that the caller gave."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise TypeError(f"{function}: out: found {type(out).__name__}, expected a pair {names}")
    return out


def operands(function: str, target: str | None, stream: Any, *inputs: Any) -> tuple[Any, ...]:
    """Return the inputs of a call, as many as it has, as its target takes them, then the target.

    Arrays in host memory run on the CPU unless `target` says otherwise, arrays on a device there.
    """
    if target == "cpu":
        for name, value in zip(OPERATORS[function].operands, inputs, strict=False):
            if library_of(value):
                raise TypeError(
                    f"{function}: {name}: found an array on a CUDA device, "
                    "expected an array in host memory for target 'cpu'"
                )
    elif arrays := _device_arrays(function, inputs):
        if stream is not None:
            arrays[0].stream = stream_pointer(function, stream)
        return (*arrays, "cuda" if target is None else targets.resolve_target(target))
    if stream is not None:
        raise ValueError(f"{function}: stream: found {stream!r}, expected None for arrays in host memory")
    hosts: list[ndarray[Any, Any]] = []
    for name, value in zip(OPERATORS[function].operands, inputs, strict=False):
        if name in INDICES:
            hosts.append(index_array(function, value, name))
        elif name == "updates":
            hosts.append(update_array(function, value, hosts[0].dtype))
        else:
            hosts.append(host_array(function, name, value))
    if target == "cuda":
        to_device = targets.kernels("cuda").to_device
        return (*(to_device(array) for array in hosts), target)
    return (*hosts, target)


def _device_arrays(function: str, inputs: tuple[Any, ...]) -> list[DeviceArray] | None:
    """Return what kernels need to know of the inputs of a call, or None if they are all in host memory."""
    arrays: list[DeviceArray] = []
    for name, value in zip(OPERATORS[function].operands, inputs, strict=False):
        library = library_of_type(value.__class__)
        try:
            array = None if library is None else library.view(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{function}: {name}: {error}") from None
        if array is None:
            if arrays or any(map(library_of, inputs)):
                raise TypeError(
                    f"{function}: {name}: found {type(value).__name__} in host memory, expected an array on the device"
                )
            return None
        arrays.append(array)
        if array.device != arrays[0].device:
            raise ValueError(
                f"{function}: {name}: found an array on device {array.device}, "
                f"expected device {arrays[0].device}, that of a"
            )
    return arrays


#: The ranks of dtypes, by their kinds: each holds the numbers of the ones before. Text is above them all.
_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_PYTHON_RANKS: dict[type, int] = {bool: 0, int: 1, range: 1, float: 2, complex: 3, str: 4, bytes: 4}
#: What else NumPy makes arrays of: sequences, by their elements, and what is an array, or a scalar of one, by itself.
_NESTED, _TYPED = 5, 6


@lru_cache(maxsize=256)
def _rank_of(kind: type) -> int:
    """Return the rank of a type of Python's own values, or which of the others it is."""
    if not issubclass(kind, np.generic):
        for base, rank in _PYTHON_RANKS.items():
            if issubclass(kind, base):
                return rank
    memory = issubclass(kind, (bytearray, memoryview, typed_array)) or hasattr(kind, "__array__")
    return _NESTED if issubclass(kind, Sequence) and not memory else _TYPED


def _leaves(value: Any) -> tuple[int, list[Any]]:
    """Return the highest rank of Python's own values in nested lists, -1 without any, and what is an array by itself.

    This counts types, level by level: with a million numbers it takes about as long as `numpy.asarray` after it.
    """
    highest, typed, level = -1, [], [value]
    for _ in range(MAX_DIMENSIONS + 1):  # a list may hold itself
        ranks = {kind: _rank_of(kind) for kind in set(map(type, level))}
        found = set(ranks.values())
        highest = max(highest, *(rank for rank in found if rank < _NESTED), -1)
        if _TYPED in found:
            typed += [x for x in level if ranks[type(x)] == _TYPED]
        if _NESTED not in found:
            break
        lists = level if len(found) == 1 else [x for x in level if ranks[type(x)] == _NESTED]
        level = list(chain.from_iterable(lists))
    return highest, typed


def _converted(function: str, argument: str, value: Any) -> tuple[ndarray[Any, Any], int, list[Any]]:
    """Return what is no array as one, which may hold objects, and what `_leaves` says of it."""
    highest, typed = _leaves(value)
    if any(isinstance(leaf, np.ma.MaskedArray) for leaf in typed):
        _refuse_mask(function, argument)
    try:
        array = np.asanyarray(value)
        # Somebody's `__array__` may return a masked array, too.
        made = [np.asanyarray(x) for x in typed if x is not value and not isinstance(x, (ndarray, np.generic))]
    except (TypeError, ValueError, RuntimeError) as error:  # also whatever somebody's `__array__` raises
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{function}: {argument}: {_explain(function, argument, str(error), typed)}") from None
    if any(isinstance(each, np.ma.MaskedArray) for each in (array, *made)):
        _refuse_mask(function, argument)
    return np.asarray(array), highest, typed


def _refuse_mask(function: str, argument: str) -> NoReturn:
    raise TypeError(
        f"{function}: {argument}: found a masked array, expected an array without a mask "
        "(use .filled() or .data: the mask would be lost)"
    )


def _explain(function: str, argument: str, text: str, typed: list[Any]) -> str:
    """Return the text of an error of NumPy's, or of an array's own conversion, in our words where we know better."""
    if "inhomogeneous shape" in text:
        return "found nested lists of unequal lengths, expected equal ones in every dimension"
    if "requires grad" in text:
        return "found a tensor that requires grad, expected one without (use .detach())"
    if "unsupported ScalarType" in text:  # PyTorch's, of what NumPy has no dtype for
        tensor = next(leaf for leaf in typed if hasattr(leaf, "element_size"))
        hint = ".long()" if argument in INDICES else ".float()"
        if argument not in INDICES and not OPERATORS[function].compares:
            hint += f", or .view(torch.{'uint8' if tensor.element_size() == 1 else 'int16'}) to move the bits"
        return f"found a tensor of {tensor.dtype}, expected a dtype that NumPy has (use {hint})"
    return text


def _refuse_objects(function: str, argument: str, value: Any, array: ndarray[Any, Any]) -> None:
    """Refuse Python objects by their type."""
    if not array.dtype.hasobject:
        return
    found = f"dtype {array.dtype}"
    if not hasattr(value, "dtype"):
        culprit = next(x for x in chain(array.flat, [value]) if np.asarray(x).dtype.hasobject)
        found = "None" if culprit is None else type(culprit).__name__
        if isinstance(culprit, int):
            found = "an integer of more than 64 bits"
        if culprit is not value:
            found += f" in a {type(value).__name__}"
    expected = "an array of integers" if argument in INDICES else "an array of a fixed-size element type"
    raise TypeError(f"{function}: {argument}: found {found}, expected {expected}")


def host_array(function: str, argument: str, value: Any) -> ndarray[Any, Any]:
    """Return `value` as a plain NumPy array, without a copy where it is one already."""
    if isinstance(value, np.ma.MaskedArray):
        _refuse_mask(function, argument)
    if isinstance(value, ndarray):  # descriptors refuse Python objects, as of a Dask array
        return np.asarray(value)
    array = _converted(function, argument, value)[0]
    _refuse_objects(function, argument, value, array)
    return array


def index_array(function: str, value: Any, argument: str = "indices") -> ndarray[Any, Any]:
    """Return `indices` as an array; an empty list counts as integers."""
    array = host_array(function, argument, value)
    if array.size == 0 and not hasattr(value, "dtype"):
        return array.astype(np.intp)
    return array


def update_array(function: str, value: Any, dtype: np.dtype[Any], argument: str = "updates") -> ndarray[Any, Any]:
    """Return `updates` as an array; Python's own numbers become the dtype of `a` if they fit, nothing else does."""
    if isinstance(value, ndarray):
        return host_array(function, argument, value)
    array, highest, typed = _converted(function, argument, value)
    if not typed and array.dtype == dtype:
        return array
    rank = _RANKS.get(dtype.kind, -1)
    if dtype.isbuiltin == 2:  # another package's
        rank = _RANKS["f"] if dtype.name == "bfloat16" else -1
    if typed or highest > rank:
        _refuse_objects(function, argument, value, array)
    for leaf in typed:
        check_same_type(function, np.asarray(leaf).dtype, dtype, argument)
    if highest > rank or (typed and highest < 0):
        return array
    if dtype.kind in "iu" and array.size:  # NumPy 1 would wrap them
        numbers = array if array.dtype.kind in "biu" else np.asarray(value, object)
        limits = np.iinfo(dtype)
        for number in (int(numbers.min()), int(numbers.max())):
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{function}: {argument}: found {number}, expected numbers that {dtype} holds")
    try:
        return np.asarray(value, dtype)
    except OverflowError:
        raise ValueError(
            f"{function}: {argument}: found an integer too large for a float, expected numbers that {dtype} holds"
        ) from None


def check_same_type(
    function: str, updates: np.dtype[Any], data: np.dtype[Any], argument: str = "updates", of: str = "a"
) -> None:
    """Refuse updates that would need a cast; `of` is the argument whose dtype they should have."""
    if native_dtype(updates) != native_dtype(data):
        raise TypeError(
            f"{function}: {argument}: found dtype {updates}, expected {data}, the dtype of {of} (no silent cast)"
        )


def out_strides(function: str, out: Any, target: str | None) -> tuple[int, ...] | None:
    """Return the strides of an `out` array on the CPU, if there is one."""
    if out is None or target == "cuda":
        return None
    if not isinstance(out, ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{function}: out: found {type(out).__name__}, expected a numpy.ndarray")
    return out.strides


def check_out(function: str, name: str, out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Check an output that the caller gave; return whether it is contiguous."""
    if out.__class__ is ndarray and out.dtype == dtype and out.shape == shape and out.flags.carray:
        return True  # contiguous, aligned, and can be written
    if not isinstance(out, ndarray) or isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{function}: {name}: found {type(out).__name__}, expected a numpy.ndarray")
    out = np.asarray(out)  # what a subclass says of itself need not be so
    if out.dtype != dtype:
        raise TypeError(f"{function}: {name}: found dtype {out.dtype}, expected {dtype}")
    if out.shape != shape:
        raise ValueError(f"{function}: {name}: found shape {out.shape}, expected {shape}")
    flags = out.flags
    if not flags.writeable:
        raise ValueError(f"{function}: {name}: found a read-only array, expected one that can be written")
    if flags.c_contiguous:
        return True
    if elements_overlap(out.shape, out.strides, dtype.itemsize):
        raise ValueError(f"{function}: {name}: found strides {out.strides}, expected elements that do not overlap")
    return False


def shared_outputs(function: str) -> ValueError:
    """Return the error for two outputs in the same memory: what is written last would be in both."""
    names = " and ".join(OPERATORS[function].outputs)
    return ValueError(f"{function}: out: found {names} that share memory, expected two arrays")


def check_apart(function: str, first: ndarray[Any, Any], second: ndarray[Any, Any]) -> None:
    """Refuse two outputs in the same memory."""
    if np.shares_memory(first, second):
        raise shared_outputs(function)


def mask_hint(function: str) -> str:
    """Return what to write for a mask as indices, where there is something."""
    positions = OPERATORS[function].mask_function
    return f" (np.{positions} finds where a mask is True)" if positions else ""
