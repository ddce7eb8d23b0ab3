"""The addresses of entries and kernels, as a constant of the function that calls them.

It stands in the environment of that function, which Numba keeps beside the machine code: where Numba loads that from
its disk cache, it makes the constant anew, and with it come the kernels. While jitted code runs, no kernel has to be
compiled or looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from ..._jit.compile import PLAN, code_address
from ..._jit.disk_cache import _source_stamp
from ..._jit.emission import cgutils, intrinsic, ir
from ..._jit.emission_late import Environment
from ..._jit.memory import ANY, SIGNED, UNSIGNED, ArrayRef
from ..._version import __version__
from ..dispatch.top_k import jitted_kernels
from ..drivers import emit_call
from ..kernels.gather import gather_kernel
from ..kernels.scatter import scatter_kernel
from ..kernels.top_k_alone import alone_kernel
from ..primitives.moves.offsets import finder_address
from . import entries
from .requests import WORD

#: What code in a disk cache was compiled for: with another package, requests would not mean the same.
_STAMP = (__version__, _source_stamp())


class _Addresses(bytes):
    """The addresses of an entry and of its kernels, as the bytes of 64-bit words."""

    arguments: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return _reload, (_STAMP, *self.arguments)


def _reload(stamp: Any, *arguments: Any) -> _Addresses:
    if stamp != _STAMP:  # Numba compiles anew what it cannot read
        raise OSError("compiled with other sources of numba_dml")
    return addresses(*arguments)


@cache
def addresses(entry: str | Callable[..., Any], *arguments: Any) -> _Addresses:
    """Return the addresses for an entry, whose kernels are compiled or loaded now if they have not been before.

    `entry` is the name of one in `entries`, or a function that returns an entry and the addresses of its kernels. Then
    the address of the arguments stands before those of the kernels: errors are made from them (see `errors`).
    """
    known = entry, *arguments
    if entry == "alone":
        x = ArrayRef(SIGNED[arguments[0]], arguments[1])
        code = [code_address(alone_kernel, (x, x, ANY, ANY))]
    elif callable(entry):
        function, *code = entry(*arguments)
        code = [code_address(function, entries.SIGNATURE), id(known), *code]
    else:
        code = [code_address(getattr(entries, entry), entries.SIGNATURE)]
    if entry == "top_k_entry":
        itemsize, floats, lines = arguments
        x = ArrayRef(SIGNED[itemsize], floats)
        code += [kernel_address(kernel, x, x, ANY, ANY) if kernel else 0 for kernel in jitted_kernels(lines)]
    elif entry == "move_entry":
        family, element, width, slices = arguments
        data, index = ArrayRef(element), ArrayRef(SIGNED[width]) if width else ANY
        scatters = family == "scatter"
        kernel, arrays = (scatter_kernel, (ANY, data, index, data)) if scatters else (gather_kernel, (data, ANY) * 2)
        code += [kernel_address(kernel, *arrays), finder_address()]
        code += [kernel_address(kernel, ANY, ANY, ANY, ANY)] if slices else []
    result = _Addresses(np.array(code, np.int64).tobytes())
    result.arguments = known
    return result


def kernel_address(kernel: Any, *arrays: Any) -> int:
    return code_address(kernel, (types.int64, types.int64, types.int64, *arrays, PLAN))


def unit_of(itemsize: int) -> int:
    """Return the bytes that move at once: those of an element, or one where no number is as wide."""
    return itemsize if itemsize in UNSIGNED else 1


class _Kept(Environment):  # type: ignore[misc]
    """An environment with addresses, which stays when it was loaded.

    Numba keeps it for what Python calls. That of a `cfunc` or of a parallel ufunc it would forget as soon as the code
    is loaded, which has its address.
    """

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _keep, super().__reduce__()


_kept: list[_Kept] = []


def _keep(rebuild: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    environment = rebuild(*arguments)
    environment.__class__ = _Kept
    _kept.append(environment)
    return environment


def emit_call_of(
    context: Any, builder: Any, constant: _Addresses, signature: Any, arguments: Any, raises: bool = True
) -> Any:
    """Emit the call of the first of the addresses; `arguments` tells them, with the others at hand."""
    environment = context.get_env_manager(builder)
    environment.env.__class__ = _Kept
    holder = environment.read_const(environment.add_const(constant))
    # Neither this nor reading a constant needs the interpreter's lock: both only follow pointers.
    kind = ir.FunctionType(WORD.as_pointer(), [holder.type])
    words = builder.call(cgutils.get_or_insert_function(builder.module, kind, "PyBytes_AsString"), [holder])
    others = builder.ptrtoint(builder.gep(words, [WORD(1)]), WORD)
    return emit_call(context, builder, signature, builder.load(words), *arguments(others), raises=raises)


def caller(*arguments: Any) -> Any:
    """Return ``enter(request, arrays)``, which calls an entry while `arrays` are alive."""
    constant = addresses(*arguments)

    @intrinsic
    def enter(typingctx: Any, request: Any, arrays: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit_call_of(context, builder, constant, entries.SIGNATURE, lambda kernels: [kernels, args[0]])

        return types.int64(request, arrays), codegen

    return enter
