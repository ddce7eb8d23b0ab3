"""Thresholds of argmin and argmax. The figures are in docs/measurements/cpu_argextreme.md."""

from __future__ import annotations

from typing import NamedTuple


class Tuning(NamedTuple):
    """Which kernel searches, and what threads share."""

    #: Bytes of a line that are compared before the best of them is looked for: they stay in the L1.
    block_bytes: int = 16384
    #: The most neighbouring columns that are looked at together, and the most bytes of a row of them: their keys and
    #: positions stay in the L1.
    tile_columns: int = 2048
    tile_bytes: int = 8192
    #: Bytes of the rows of columns that are taken for one if a row is shorter than a vector, and the fewest such rows.
    folded_bytes: int = 256
    folded_rows: int = 8
    #: The fewest bytes of a piece, and the most pieces of all lines, where threads have too few lines.
    piece_bytes: int = 131072
    most_pieces: int = 64


TUNING = Tuning()
