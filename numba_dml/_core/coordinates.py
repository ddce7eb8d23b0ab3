"""Indices as coordinates of the data, for whoever cuts arrays into parts: Dask's chunks, and the parts of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import index_error

_MAX = np.iinfo(np.int64).max


class Indexed(NamedTuple):
    """The axes of the data that the indices of a call lead along."""

    function: str  #: whose indices they are
    axes: range
    sizes: tuple[int, ...]  #: of these axes
    bounds: str  #: "raise", "clamp" or "drop"


def error_at(
    function: str, indices: Any, wrong: Any, first: Sequence[int], axis: int, size: int, argument: str = "indices"
) -> IndexError:
    """Return the error for the first index of a block that is wrong; the block begins at `first` among all indices."""
    here = np.unravel_index(int(wrong.reshape(-1).argmax()), indices.shape)
    where = [int(i) + start for i, start in zip(here, first, strict=True)]
    return index_error(function, where, int(indices[here]), axis, size, argument)


def checked_coordinates(indices: Any, first: Sequence[int], indexed: Indexed) -> list[Any]:
    """Return where the points of indices are on each indexed axis, as int64; a dropped point is at -1.

    `first` is the position of the block among all indices, for the error.
    """
    count, sizes = len(indexed.axes), indexed.sizes
    flat = indices.reshape(-1)
    if flat.dtype.kind == "u" and flat.dtype.itemsize == 8:  # in any byte order
        flat = np.minimum(flat, _MAX)
    flat = flat.astype(np.int64, copy=False)
    rows = [flat[column::count] for column in range(count)]
    if not flat.size or (flat.min() >= 0 and all(row.max() < size for row, size in zip(rows, sizes, strict=True))):
        return rows
    rows = [np.where(row < 0, row + size, row) for row, size in zip(rows, sizes, strict=True)]
    if indexed.bounds == "clamp":
        return [row.clip(0, size - 1) for row, size in zip(rows, sizes, strict=True)]
    wrong = np.stack([(row < 0) | (row >= size) for row, size in zip(rows, sizes, strict=True)], axis=-1)
    if indexed.bounds == "raise" and wrong.any():
        coordinate = int(wrong.reshape(-1).argmax()) % count
        raise error_at(indexed.function, indices, wrong, first, indexed.axes[coordinate], sizes[coordinate])
    return [np.where(wrong.any(axis=-1), -1, row) for row in rows]
