"""The functions in jitted code: how Numba finds out that it can compile calls of them.

Numba calls `register` through the entry point `numba_extensions`, before it compiles anything. Where the package is on
the path without being installed there is no entry point: then it is called by `numba_dml` itself, if Numba has been
imported before, or else when the first kernel is needed. Nothing here imports Numba for those who do not use it.
"""

from __future__ import annotations

import sys

_registered = False


def register() -> None:
    """Tell Numba how to compile calls of the functions; the second time it does nothing."""
    global _registered
    if _registered:
        return
    _registered = True
    from . import ops
    from ._core.spec import OPERATORS
    from ._jit.emission import overload

    def typed(name):
        def implementation(*args, **kwargs):  # what it is, is imported when there is a call
            from ._jit.emission_late import TypingError
            from .cpu.jitted.functions import function_of

            try:
                return function_of(name)(*args, **kwargs)
            except TypeError as error:  # there is no such argument
                raise TypingError(str(error)) from None

        implementation.__qualname__ = name  # for Numba's errors
        return implementation

    # In a caller's loop over rows each reference that is counted takes as long as 6 elements of a row. What implements
    # `top_k` becomes part of the caller, and counts none itself (see `cpu.jitted.functions.top_k`).
    options = {"top_k": {"forceinline": True, "_nrt": False}}
    for name in OPERATORS:
        decorate = overload(getattr(ops, name), jit_options=options.get(name, {}), strict=False, prefer_literal=True)
        decorate(typed(name))


def register_if_imported() -> None:
    """Call `register` if Numba has been imported: it costs next to nothing then."""
    if "numba.core.extending" in sys.modules:
        register()
