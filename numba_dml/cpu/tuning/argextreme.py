"""Thresholds of argmin and argmax. The figures are in docs/measurements/cpu_argextreme.md."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Which kernel searches, and what threads share."""

    #: Bytes of a line that are compared before the best of them is looked for: they stay in the L1.
    block_bytes: int
    #: The most neighbouring columns that are looked at together, and the most bytes of a row of them: their keys and
    #: positions stay in the L1.
    tile_columns: int
    tile_bytes: int
    #: Bytes of the rows of columns that are taken for one if a row is shorter than a vector, and the fewest such rows.
    folded_bytes: int
    folded_rows: int
    #: The fewest bytes of a piece, and the most pieces of all lines, where threads have too few lines.
    piece_bytes: int
    most_pieces: int


TUNING = Tuning(
    block_bytes=16384,
    tile_columns=2048,
    tile_bytes=8192,
    folded_bytes=256,
    folded_rows=8,
    piece_bytes=131072,
    most_pieces=64,
)
