"""Where indices lead: which chunk of the data each point of a block of indices falls into, and where in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._core.coordinates import Indexed, checked_coordinates
from .graphs import in_memory_of

_SHORT = np.iinfo(np.uint16).max  #: fewer chunks than this have numbers of 16 bits, which NumPy sorts in linear time


class Rule(NamedTuple):
    """What tasks must know of a call to read its indices."""

    indexed: Indexed  #: the indexed axes of the data
    starts: list[list[int]]  #: where the chunks start on each of them
    points: int  #: how many dimensions of the indices are points; the coordinates of a tuple are another one
    paired: list[tuple[int, bool]]  #: shared dimensions, and whether data have an element there for each point


@dataclass(frozen=True)
class Places:
    """The points of a block of indices by the chunks that they fall into.

    Chunks have numbers: their position on the indexed axes, in row-major order.
    """

    shape: tuple[int, ...]  #: of the points
    order: Any  #: flat positions of the points, grouped by chunk, and in their own order there; dropped ones come last
    ends: list[int]  #: the points of chunk n are ``order[ends[n]:ends[n + 1]]``
    coordinates: list[Any]  #: where they are in their chunks, on each indexed axis, in that order
    axes: range  #: see `Indexed`
    paired: list[tuple[int, bool]]  #: see `Rule`

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


def find_places(indices: Any, first: Sequence[int], rule: Rule) -> Places:
    """Return the points of a block of indices by chunk."""
    rows = checked_coordinates(indices, first, rule.indexed)
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
    return Places(shape, order, ends, [row[order] for row in rows], rule.indexed.axes, rule.paired)


def _chunk_of(row: Any, starts: list[int]) -> Any:
    """Return the chunk of every coordinate of a dimension, by where the chunks start."""
    step = starts[1]
    if step and (np.diff(starts) == step).all():
        return np.minimum(row // step, len(starts) - 1)  # several times as fast as a search
    return np.searchsorted(in_memory_of(np.array(starts), row), row, side="right") - 1
