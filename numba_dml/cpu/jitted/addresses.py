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
from ..._jit.memory import emit_load, emit_store
from ..._version import __version__
from ..drivers import emit_call
from .requests import OPERATOR, SIGNATURE, WORD

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
def addresses(code: Callable[..., tuple[int, ...]], *arguments: Any) -> _Addresses:
    """Return the addresses for an entry, whose kernels are compiled or loaded now if they have not been before.

    `code` returns that of the entry and those of its kernels for the arguments, whose own address stands between them:
    errors are made from these (see `errors`).
    """
    known = code, *arguments
    entry, *kernels = code(*arguments)
    result = _Addresses(np.array([entry, id(known), *kernels], np.int64).tobytes())
    result.arguments = known
    return result


def entry_address(entry: Any) -> int:
    """Return the address of an entry."""
    return code_address(entry, SIGNATURE)


def kernel_address(kernel: Any, *arrays: Any) -> int:
    """Return the address of a kernel that sees its arrays as these types."""
    return code_address(kernel, (types.int64, types.int64, types.int64, *arrays, PLAN))


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
            def described(kernels: Any) -> tuple[Any, Any]:
                """Let the request say what Python builds its errors from, which stands before the kernels."""
                emit_store(builder, emit_load(builder, kernels, WORD(0), WORD), args[0], WORD(8 * OPERATOR))
                return kernels, args[0]

            return emit_call_of(context, builder, constant, SIGNATURE, described)

        return types.int64(request, arrays), codegen

    return enter
