"""What the choice of kernels for a top-k depends on."""

from __future__ import annotations

from typing import NamedTuple

from ..._core.lowering import Select, is_float
from ..._core.tensor import element_size, product
from ..kernels.top_k_short import THREAD_LISTS
from ..kernels.top_k_warp import sizes_for
from ..primitives.groups import shared_bytes
from ..tuning.top_k import Tuning


class Facts(NamedTuple):
    """The numbers of one layout that the choice needs."""

    #: How many lines there are.
    lines: int
    #: Elements of a line.
    n: int
    #: How many of them are wanted.
    k: int
    #: Bytes of an element.
    width: int
    #: Bytes of a key: 4 or 8.
    key_bytes: int
    #: Whether elements are floats, which have NaNs and two zeros.
    is_float: bool
    #: Whether a line is contiguous.
    packed: bool
    #: Whether packed lines all start and end at a multiple of 16 bytes, if the first one starts there.
    quads: bool
    #: Whether neighbouring lines lie beside each other, one element apart.
    beside: bool
    #: Whether 16 aligned bytes hold elements of neighbouring lines, if the first line starts at a multiple of 16.
    columns: bool
    #: Whether positions in a line take 64 bits.
    is_long: bool
    #: The length of the list of a thread that has a short line: 0 if k is too large for one.
    thread_list: int
    #: Units of a chunk, chunks and listed elements of a lane, if a warp can have a line: see `top_k_warp.sizes_for`.
    warp_sizes: tuple[int, int, int] | None
    #: Bytes of shared memory that a block can have.
    shared_bytes: int

    @property
    def line_bytes(self) -> int:
        """Return the bytes of a line."""
        return self.n * self.width

    @property
    def of_unit(self) -> int:
        """Return how many elements 16 bytes hold."""
        return 16 // self.width


def facts_of(low: Select, tuning: Tuning) -> Facts:
    """Return the facts of a layout."""
    dims, n, stride, k = low.lines, low.size, low.stride, low.k
    width = element_size(low.data_type)
    step = dims[-1][1] if dims else 0  # from a line to the next one
    packed = stride == width and all(step % width == 0 for _, step, _ in dims)
    return Facts(
        lines=product([dim[0] for dim in dims]),
        n=n,
        k=k,
        width=width,
        key_bytes=8 if width == 8 else 4,
        is_float=is_float(low.data_type),
        packed=packed,
        quads=packed and n * width % 16 == 0 and not any(step % 16 for _, step, _ in dims),
        beside=not packed and abs(step) == width,
        columns=step == width
        and stride > 0
        and not (dims[-1][0] * width % 16 or stride % 16 or any(step % 16 for _, step, _ in dims[:-1])),
        is_long=n >= tuning.long_line,
        thread_list=next((length for length in THREAD_LISTS if length >= k), 0),
        warp_sizes=sizes_for(n, k, width) if packed and k > 0 else None,
        shared_bytes=shared_bytes(),
    )
