"""How results of a top-k are written."""

from __future__ import annotations

from ...driver.compile import helper
from ..access import unit_access

_, store_word = unit_access(8)
_, store_half = unit_access(4)
_, store_short = unit_access(2)
_, store_byte = unit_access(1)


@helper
def write_index(indices, size, at, position):
    """Store one output index of `size` bytes."""
    if size == 8:
        store_word(indices + 8 * at, position, 0)
    elif size == 4:
        store_half(indices + 4 * at, position, 0)
    elif size == 2:
        store_short(indices + 2 * at, position, 0)
    else:
        store_byte(indices + at, position, 0)
