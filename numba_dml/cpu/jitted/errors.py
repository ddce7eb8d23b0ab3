"""The errors of jitted calls are those of Python's: an entry that finds something wrong asks Python what it is.

So no text is compiled, and there is one of each. Python builds the call that it would make for such arguments.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, c_int64, c_uint64, c_void_p, cast, memmove, py_object
from functools import lru_cache
from itertools import chain
from types import SimpleNamespace

import numpy as np
from numba import types

from ..._core.operands import check_apart, check_out
from ..._core.spec import OPERATORS
from ..._core.tensor import packed_strides
from ..._jit.compile import allocating
from ..._jit.emission import add_symbol, cgutils, intrinsic, ir
from ..._jit.emission_late import PY_UNICODE_1BYTE_KIND, _empty_string, _set_code_point
from ..._jit.memory import empty
from ..launch import later
from . import requests

#: What entries find out about arguments. In place of the position of a bad index, what is asked: what is wrong, or
#: whether anything is; or that a result does not have the dimensions that it was compiled for.
FITS, WRONG, PERHAPS, NO_RANK = map(np.int64, (0, -1, -2, -3))
#: Characters of a text.
ROOM = 4096


@lru_cache(maxsize=64)
def _call(name, shapes, dtypes, parameters):
    """Return the call that Python would make for packed arrays; nothing is compiled for it."""
    spec = OPERATORS[name]
    layouts = [(s, packed_strides(s, d.itemsize), d) for s, d in zip(shapes, dtypes, strict=True)]
    token = later.set(True)
    try:
        return spec.build(*[None] * spec.writes, *chain.from_iterable(layouts), parameters, "cpu")
    finally:
        later.reset(token)


def error_of(address, position):
    """Return the error for a request at an address, or None."""
    words = (c_int64 * requests.ARRAYS).from_address(address)
    spec, kinds, parameters = _described(address, words)
    count = len(kinds) - len(spec.outputs)
    arrays = list(_arrays(address, kinds if words[requests.OUT_AT] else kinds[:count]))
    inputs, outs = arrays[: len(spec.inputs)], arrays[count:]
    try:
        call = _call(spec.name, tuple(a.shape for a in inputs), tuple(a.dtype for a in inputs), parameters)
        call = getattr(call, "call", call)  # of one that has scalars
        for i, out in enumerate(outs):
            shape = () if spec.outputs[i] == "count" else call.shape
            check_out(spec.name, f"out[{i}]" if len(outs) > 1 else "out", out, shape, out.dtype)
        if len(outs) > 1:
            check_apart(spec.name, *outs)
    except (ValueError, MemoryError) as error:
        return error
    if position >= 0:
        return getattr(call, "lowering", call).error_at(*inputs[:2], position)
    if position == NO_RANK:
        expected = "a.ndim - batch_dims coordinates per tuple (the last size) without out"
        return ValueError(f"{spec.name}: indices: expected {expected}")
    return None if position == PERHAPS else ValueError(f"{spec.name}: found arrays that do not fit each other")


def _described(address, words):
    """Return the operator, the dtypes and the parameters of a request.

    Its OPERATOR is the address of the arguments of `addresses`, which keeps them: a function, the operator's name,
    dtypes and parameters, and what else the function takes. ``...`` stands for a parameter that the request holds.
    """
    _, name, kinds, parameters, *_ = cast(words[requests.OPERATOR], py_object).value
    spec, (axis, number) = OPERATORS[name], _given(address, words)
    told = {"axis": axis, "batch_dims": axis, "k": number, "depth": number, "size": number}
    if any(one.name == "shape" for one in spec.parameters):  # it comes as an array behind the others
        *_, shape = _arrays(address, kinds[:-1])
        told["shape"] = tuple(shape.tolist())
    given = zip(spec.parameters, parameters, strict=True)
    return spec, kinds, tuple(told[one.name] if value is ... else value for one, value in given)


def _given(address, words):
    """Return the numbers that the caller gave, those above what a request holds too."""
    unsigned = (c_uint64 * requests.GIVEN).from_address(address + 8 * (words[requests.SIZES_AT] - requests.GIVEN))
    return [whole if word == requests.MOST else word for word, whole in zip(words, unsigned, strict=False)]


def _arrays(address, kinds):
    """Yield the arrays of a request."""
    at = address + 8 * requests.ARRAYS
    for kind in kinds:
        start, ndim = (c_int64 * 2).from_address(at)
        numbers = (c_int64 * (2 * ndim)).from_address(at + 16)
        layout = {"shape": tuple(numbers[:ndim]), "strides": tuple(numbers[ndim:]), "typestr": kind.str}
        yield np.asarray(SimpleNamespace(__array_interface__={"version": 3, "data": (start, False), **layout}))
        at += 16 + 16 * ndim


@CFUNCTYPE(c_int64, c_int64, c_int64, c_int64)
def _write_error(address, position, text):
    """Write the text of an error; return how long it is, less than 0: an IndexError's, 0: there is none."""
    error = error_of(address, position)
    if error is None:
        return 0
    characters = str(error).encode("ascii", "replace")[:ROOM]
    memmove(text, characters, len(characters))
    return -len(characters) if isinstance(error, IndexError) else len(characters)


#: Compiled code finds it by this name, in a disk cache, too.
_NAME = "numba_dml_write_error"
add_symbol(_NAME, cast(_write_error, c_void_p).value)


@intrinsic
def _ask_python(typingctx, request, position, text):
    """``_ask_python(request, position, text)``: what `_write_error` returns; an error that is set already stays."""

    def codegen(context, builder, signature, args):
        python = context.get_python_api(builder)
        lock = python.gil_ensure()
        pending = [cgutils.alloca_once(builder, python.pyobj) for _ in range(3)]
        python.err_fetch(*pending)
        word = ir.IntType(64)
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, [word] * 3), _NAME)
        room = builder.ptrtoint(context.make_array(text)(context, builder, args[2]).data, word)
        length = builder.call(function, [args[0], args[1], room])
        python.err_restore(*map(builder.load, pending))
        python.gil_release(lock)
        return length

    return types.int64(request, types.int64, text), codegen


@allocating
def raise_error(request, position):
    """Raise the error for a bad index at a flat position, or for what is WRONG, or PERHAPS is."""
    characters = empty(ROOM, np.uint8)
    length = _ask_python(request, position, characters)
    if length == 0 and position == PERHAPS:
        return
    text = _empty_string(PY_UNICODE_1BYTE_KIND, abs(length), 1)
    for i in range(abs(length)):
        _set_code_point(text, i, np.uint32(characters[i]))
    if length < 0:
        raise IndexError(text)
    raise ValueError(text)
