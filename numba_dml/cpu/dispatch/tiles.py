"""How wide a tile of neighbouring lines is: one rule for sums, arg-extrema and top-k, which jitted callers compile."""

from __future__ import annotations


def tile_width(across: int, blocks: int, threads: int, most: int, unit: int) -> int:
    """Return how many neighbouring lines are a tile: `most`, or fewer units, so that all threads have as many tiles.

    `across` lines lie side by side, in each of `blocks` places.
    """
    tiles = -(-across // most)
    while blocks * tiles % threads > 0 and across > tiles * unit:
        tiles += 1
    return -(-across // (tiles * unit)) * unit
