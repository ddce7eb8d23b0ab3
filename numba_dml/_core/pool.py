"""Memory for large results: kept when a result dies, and given to the next one.

Fresh memory costs page faults. A gather of 256 MB takes 36 ms into a new array, and at times ten times as long, where
the kernel alone takes 22. A result is an ordinary `numpy.ndarray` whose memory belongs to a *lease*. The lease dies
with the result and the last view of it, and only then is the memory free again.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from typing import Any

import numpy as np

from .config import PREFIX
from .errors import integer
from .tensor import product

#: Results from this size on are pooled. Below, malloc recycles as well, and a lease costs 2.9 µs (4.4 when all blocks
#: that wait were listed, and each lease described its memory anew: an allocating gather of 1 MiB took 36.5 µs then, and
#: takes 33.9).
POOLED_BYTES = 1 << 20
SLACK = 4  #: memory may be this much larger than the result that gets it: a part of it
ALIGNMENT = 64  #: what is aligned like this can be written past the caches (AVX-512 and cache lines: 64 bytes)

_LIMIT = f"{PREFIX}POOL_BYTES"
_DEFAULT_LIMIT = 1 << 28


class _Block:
    """Memory of our own. Blocks are compared by identity."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.memory = np.empty(size + ALIGNMENT, np.uint8)
        address = -(-self.memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.interface = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (address, False)}


class _Lease:
    """The owner of a block for as long as an array in it lives: the base of that array."""

    __slots__ = ("__array_interface__", "block", "pool")

    def __init__(self, pool: MemoryPool, block: _Block) -> None:
        self.pool, self.block = pool, block
        self.__array_interface__ = block.interface

    def __del__(self) -> None:
        self.pool._give_back(self.block)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be copied or pickled: the memory would be free when the copy dies."""
        raise TypeError("memory of a pool cannot be copied: copy an array in it")


class MemoryPool:
    """Memory that waits for the next large result.

    There is one, `numba_dml.memory_pool`. It serves results of 1 MiB or more on the CPU, and keeps their memory when
    they die, up to `limit` bytes. Such a result does not own its data (``result.flags.owndata`` is False, its
    ``resize`` refuses); in all else it is like any array.

    Parameters
    ----------
    limit : int, optional
        How many bytes may wait. What the environment variable ``NUMBA_DML_POOL_BYTES`` says, when it is first needed,
        if absent (256 MiB without it).

    Notes
    -----
    Memory in use is not limited, and what is too large to wait is released at once. No lock is needed: a finalizer
    can run at any point of any thread, and all that happens here are single operations of a deque.

    Examples
    --------
    >>> import numba_dml as dml
    >>> dml.memory_pool.limit = 0  # keep nothing
    >>> dml.memory_pool.free_bytes
    0
    >>> dml.memory_pool.limit = 256 * 2**20
    """

    def __init__(self, limit: int | None = None) -> None:
        self._free: deque[_Block] = deque()  # the latest last: it may still be in a cache
        self._limit: int | None = None
        if limit is not None:
            self.limit = limit

    @property
    def limit(self) -> int:
        """How many bytes may wait for the next result; 0 keeps nothing."""
        if self._limit is None:
            text = os.environ.get(_LIMIT, "").strip() or str(_DEFAULT_LIMIT)
            if not text.isdecimal():
                raise ValueError(f"{_LIMIT}: found {text!r}, expected a number of bytes, 0 or more")
            self._limit = int(text)
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        limit = integer("MemoryPool.limit", limit, "a number of bytes, 0 or more")
        if limit < 0:
            raise ValueError(f"MemoryPool.limit: found {limit}, expected a number of bytes, 0 or more")
        self._limit = limit
        self._trim()

    @property
    def free_bytes(self) -> int:
        """How many bytes wait for the next result."""
        return sum(block.size for block in list(self._free))

    def clear(self) -> None:
        """Release the memory that waits."""
        self._free.clear()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array of any contents, aligned to 64 bytes."""
        _ = self.limit  # an error here reaches the caller, one in a finalizer nobody
        size = product(shape) * dtype.itemsize
        try:
            lease = _Lease(self, self._take(size))
        except MemoryError:
            text = f"unable to allocate {size} bytes for a result of shape {shape} and data type {dtype}"
            raise MemoryError(text) from None
        return np.ndarray(shape, dtype, np.asarray(lease))

    def _take(self, size: int) -> _Block:
        most = size + size // SLACK
        with suppress(IndexError):
            block = self._free.pop()
            if size <= block.size <= most:  # mostly
                return block
            self._give_back(block)
        for block in reversed(list(self._free)):
            if size <= block.size <= most:
                try:
                    self._free.remove(block)  # only one thread succeeds
                except ValueError:
                    continue
                return block
        try:
            return _Block(size)
        except MemoryError:
            self.clear()
            return _Block(size)

    def _give_back(self, block: _Block) -> None:
        if block.size <= self.limit:
            self._free.append(block)
            if len(self._free) > 1 or block.size > self.limit:  # which another thread may have lowered
                self._trim()

    def _trim(self) -> None:
        with suppress(IndexError):  # another thread was faster
            while self.free_bytes > self.limit:
                self._free.popleft()


memory_pool = MemoryPool()


def allocator(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return what makes the arrays of one shape and dtype: `numpy.empty`, or the pool for large ones."""
    return memory_pool.empty if product(shape) * dtype.itemsize >= POOLED_BYTES else np.empty
