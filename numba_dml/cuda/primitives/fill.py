"""What other kernels find: a copy of what was there, and scratch memory whose words are alike, both by one launch.

The driver's own copies and sets take 2 µs each, however small they are, and no kernel can come to the device before
they are done (see `context.can_come_early`); both together in a kernel take 1.2 µs.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.launch import Kernel, recorder
from ..driver.memory import copy_bytes
from ..driver.numba import BLOCK, cuda
from .access import unit_access
from .groups import QUAD_BYTES, mover
from .moves.places import divide
from .moves.sizes import SIZES
from .ptx import await_inputs


@cache
def copy_and_set_kernel() -> Kernel:
    """Return the kernel whose first blocks copy, while the others set."""
    move = mover(1, BLOCK)
    _, store = unit_access(QUAD_BYTES)

    def copy_and_set(to, fro, size, copying, memory, quads, word, share):
        """The first `copying` blocks copy `size` bytes; others set `quads`. A block has `share` times 16 bytes."""
        await_inputs()
        block = np.int64(cuda.blockIdx.x)
        if block < copying:
            begin = block * share * QUAD_BYTES
            move(to + begin, fro + begin, min(share * QUAD_BYTES, size - begin))
        else:
            begin = (block - copying) * share
            for i in range(begin + np.int64(cuda.threadIdx.x), min(begin + share, quads), BLOCK):
                store(memory + QUAD_BYTES * i, word, word)

    return Kernel(copy_and_set, 8)


def copy_and_set(
    device: int, stream: int, to: int, fro: int, size: int, memory: int, memory_size: int, word: int
) -> None:
    """Copy bytes, and set memory, whose size is a multiple of 16, to words, in the order of a stream."""
    if size and (size > SIZES.most_copied or (to | fro) % QUAD_BYTES != 0):
        recorder.note(None)
        copy_bytes(to, fro, size, stream)
        size = 0
    quads = memory_size // QUAD_BYTES
    copied = -(-size // QUAD_BYTES)
    _, share = divide(max(quads, copied), SIZES.few_quads)
    copying = -(-copied // share)
    copy_and_set_kernel()(
        device, stream, copying - (-quads // share), to, fro, size, copying, memory, quads, word, share
    )


def set_words(device: int, stream: int, memory: int, size: int, word: int) -> None:
    """Set memory, whose size is a multiple of 16, to words of 8 bytes, in the order of a stream."""
    copy_and_set(device, stream, 0, 0, 0, memory, size, word)
