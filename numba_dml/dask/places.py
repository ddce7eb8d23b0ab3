"""Where indices lead: which chunk of the data each point of a block of indices falls into, and where in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core.errors import index_error
from .graphs import in_memory_of

_MAX = np.iinfo(np.int64).max
#: Fewer chunks than this have numbers of 16 bits, which NumPy sorts in linear time.
_SHORT = np.iinfo(np.uint16).max


class Rule(NamedTuple):
    """What tasks must know of a call to read its indices.

    Attributes
    ----------
    function : str
        Whose indices they are.
    axes : range
        The indexed axes of the data.
    sizes : tuple of int
        Their sizes.
    starts : list of list of int
        Where the chunks start on each of them.
    bounds : str
        "raise", "clamp" or "drop".
    points : int
        How many dimensions of the indices are points; the coordinates of a tuple are another one.
    paired : list of (int, bool)
        The dimensions that data and indices share, and whether data have an element there for each point.
    """

    function: str
    axes: range
    sizes: tuple[int, ...]
    starts: list[list[int]]
    bounds: str
    points: int
    paired: list[tuple[int, bool]]


@dataclass(frozen=True)
class Places:
    """The points of a block of indices by the chunks that they fall into.

    Chunks have numbers: their position on the indexed axes, in row-major order.

    Attributes
    ----------
    shape : tuple of int
        Of the points.
    order : ndarray, (points,)
        Flat positions of the points, grouped by chunk, and in their own order there; dropped points come last.
    ends : list of int
        The points of chunk n are ``order[ends[n]:ends[n + 1]]``.
    coordinates : list of ndarray, (points,)
        Where they are in their chunks, on each indexed axis, in that order.
    axes, paired : see `Rule`
    """

    shape: tuple[int, ...]
    order: Any
    ends: list[int]
    coordinates: list[Any]
    axes: range
    paired: list[tuple[int, bool]]

    def __sizeof__(self) -> int:  # Dask asks what a task's result takes
        return int(self.order.nbytes) * (1 + len(self.coordinates))

    def points(self, number: int) -> Any:
        """Return the points that fall into a chunk."""
        return self.order[self.ends[number] : self.ends[number + 1]]

    def tuples(self, number: int) -> Any:
        """Return where these points are in the chunk, as tuples of indices for `gather_nd` and `scatter_nd`."""
        part = slice(self.ends[number], self.ends[number + 1])
        found = dict(zip(self.axes, [row[part] for row in self.coordinates], strict=True))
        if self.paired:
            at = np.unravel_index(self.points(number), self.shape)
            found.update({d: at[d] if follows else np.zeros_like(at[d]) for d, follows in self.paired})
        return np.stack([found[d] for d in sorted(found)], axis=-1)

    def hits(self) -> list[int]:
        """Return the numbers of the chunks that points fall into."""
        return np.flatnonzero(np.diff(self.ends)).tolist()


def error_at(
    function: str, indices: Any, wrong: Any, first: Sequence[int], axis: int, size: int, argument: str = "indices"
) -> IndexError:
    """Return the error for the first index of a block that is wrong; the block begins at `first` among all indices."""
    here = np.unravel_index(int(wrong.reshape(-1).argmax()), indices.shape)
    where = [int(i) + start for i, start in zip(here, first, strict=True)]
    return index_error(function, where, int(indices[here]), axis, size, argument)


def checked_coordinates(indices: Any, first: Sequence[int], rule: Rule) -> list[Any]:
    """Return where the points of indices are on each indexed axis, as int64; a dropped point is at -1.

    `first` is the position of the block among all indices, for the error.
    """
    count, sizes = len(rule.axes), rule.sizes
    flat = indices.reshape(-1)
    if flat.dtype.kind == "u" and flat.dtype.itemsize == 8:  # in any byte order
        flat = np.minimum(flat, _MAX)
    flat = flat.astype(np.int64, copy=False)
    rows = [flat[column::count] for column in range(count)]
    if not flat.size or (flat.min() >= 0 and all(row.max() < size for row, size in zip(rows, sizes, strict=True))):
        return rows
    rows = [np.where(row < 0, row + size, row) for row, size in zip(rows, sizes, strict=True)]
    if rule.bounds == "clamp":
        return [row.clip(0, size - 1) for row, size in zip(rows, sizes, strict=True)]
    wrong = np.stack([(row < 0) | (row >= size) for row, size in zip(rows, sizes, strict=True)], axis=-1)
    if rule.bounds == "raise" and wrong.any():
        coordinate = int(wrong.reshape(-1).argmax()) % count
        raise error_at(rule.function, indices, wrong, first, rule.axes[coordinate], sizes[coordinate])
    return [np.where(wrong.any(axis=-1), -1, row) for row in rows]


def find_places(indices: Any, first: Sequence[int], rule: Rule) -> Places:
    """Return the points of a block of indices by chunk."""
    rows = checked_coordinates(indices, first, rule)
    dropped = rows[0] < 0
    owner: Any = np.zeros_like(rows[0])
    for axis, starts in enumerate(rule.starts):
        if len(starts) > 1:
            which = _chunk_of(rows[axis], starts)
            rows[axis] = rows[axis] - in_memory_of(np.array(starts), which)[which]
            owner = owner * len(starts) + which
    total = prod(map(len, rule.starts))
    owner[dropped] = total
    order = owner.astype(np.uint16 if total < _SHORT else np.int64).argsort(kind="stable")
    ends = [0, *np.cumsum(np.bincount(owner, minlength=total + 1)[:total]).tolist()]
    shape = indices.shape[: rule.points]
    return Places(shape, order, ends, [row[order] for row in rows], rule.axes, rule.paired)


def _chunk_of(row: Any, starts: list[int]) -> Any:
    """Return the chunk of every coordinate of a dimension, by where the chunks start."""
    step = starts[1]
    if step and (np.diff(starts) == step).all():
        return np.minimum(row // step, len(starts) - 1)  # several times as fast as a search
    return np.searchsorted(in_memory_of(np.array(starts), row), row, side="right") - 1
