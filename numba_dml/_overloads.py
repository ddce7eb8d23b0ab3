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
    from ._jit.emission import overload

    # What implements a call is imported when there is one.
    def top_k(a, k, axis=-1, mode="largest", sorted=True, nan="last", index_dtype=None, out=None):
        from .cpu.jitted import functions

        return functions.top_k(a, k, axis, mode, sorted, nan, index_dtype, out)

    def gather(a, indices, axis=0, out=None, bounds="raise"):
        from .cpu.jitted import functions

        return functions.gather(a, indices, axis, out, bounds)

    def gather_elements(a, indices, axis=-1, out=None, bounds="raise"):
        from .cpu.jitted import functions

        return functions.gather_elements(a, indices, axis, out, bounds)

    def gather_nd(a, indices, batch_dims=0, out=None, bounds="raise"):
        from .cpu.jitted import functions

        return functions.gather_nd(a, indices, batch_dims, out, bounds)

    def scatter_elements(a, indices, updates, axis=-1, reduction="none", unique=False, out=None, bounds="raise"):
        from .cpu.jitted import functions

        return functions.scatter_elements(a, indices, updates, axis, reduction, unique, out, bounds)

    def scatter_nd(a, indices, updates, batch_dims=0, reduction="none", unique=False, out=None, bounds="raise"):
        from .cpu.jitted import functions

        return functions.scatter_nd(a, indices, updates, batch_dims, reduction, unique, out, bounds)

    # In a caller's loop over rows each reference that is counted takes as long as 6 elements of a row. What implements
    # `top_k` becomes part of the caller, and counts none itself (see `cpu.jitted.functions.top_k`).
    uncounted = {"forceinline": True, "_nrt": False}
    for function in (top_k, gather, gather_elements, gather_nd, scatter_elements, scatter_nd):
        options = uncounted if function is top_k else {}
        overload(getattr(ops, function.__name__), jit_options=options, prefer_literal=True)(function)


def register_if_imported() -> None:
    """Call `register` if Numba has been imported: it costs next to nothing then."""
    if "numba.core.extending" in sys.modules:
        register()
