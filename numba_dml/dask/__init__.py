"""The functions on Dask arrays: lazy, chunk by chunk, with the results of the same call on whole arrays, bit by bit.

Pass arrays of `dask.array` to the functions of `numba_dml` itself. This package has what is public beside them, and one
file per concern: `calls` (arguments and results), `places` (which chunk an index leads to), and one for each family of
operators, or for several. It has no kernels: tasks call the same functions on chunks, and `scan` the CPU's calls, which
can go on.
"""

from typing import Any

__all__ = ["WarmUp"]


def __getattr__(name: str) -> Any:
    """Import the plugin when it is first used: arrays need no `distributed`."""
    if name == "WarmUp":
        from .worker import WarmUp

        return WarmUp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
