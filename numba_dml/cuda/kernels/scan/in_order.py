"""Running products, and sums with NumPy's bits: a thread goes through a line, strictly in order."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...._core.enums import TensorDataType as D
from ...._core.tensor import element_size
from ...driver.launch import Kernel
from ...driver.numba import BLOCK, cuda
from ...primitives import scan as fields
from ...primitives.access import unit_access
from ...primitives.plan import number
from ...primitives.ptx import await_inputs
from ...primitives.scan import LOADS, in_order


@cache
def in_order_kernel(source: D, result: D, multiplies: bool, own_type: bool, identity: tuple[int, int]) -> Kernel:
    """Return the kernel that adds up, or multiplies, lines in order; `identity` has the bits of a result of nothing."""
    load, write, combine = in_order(source, result, multiplies, own_type)
    width, out_width = element_size(source), element_size(result)
    _, store = unit_access(out_width)
    none, none_second = identity

    def scan_in_order(
        x,  # IN   address of the packed input, (outer, size, inner)
        y,  # OUT  address of the packed output
        plan,  # IN   address of the plan
    ):
        await_inputs()
        line = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if line >= number(plan, fields.LINES):
            return
        size, inner, initial = number(plan, fields.SIZE), number(plan, fields.INNER), number(plan, fields.INITIAL)
        outer, column, forwards = line // inner, line % inner, number(plan, fields.REVERSE) == 0
        step = inner if forwards else -inner
        source_line = x + width * (outer * size * inner + column)
        target_line = y + out_width * (outer * (size + initial) * inner + column)
        if initial != 0:
            store(target_line + out_width * inner * (np.int64(0) if forwards else size), none, none_second)
        if size == 0:
            return
        source_line += width * inner * (np.int64(0) if forwards else size - 1)
        target_line += out_width * inner * (initial if forwards else size - 1)
        leaves_out = number(plan, fields.EXCLUSIVE) != 0
        words = cuda.local.array((LOADS, 2), np.int64)
        total = second = np.int64(0)
        for first in range(0, size, LOADS):
            for k in range(LOADS):
                at = min(first + k, size - 1)
                words[k, 0], words[k, 1] = load(source_line + width * step * at)
            for k in range(LOADS):
                at = first + k
                if at < size:
                    before, before_second = total, second
                    new, new_second = words[k, 0], words[k, 1]
                    if at == 0:
                        total, second = new, new_second
                    else:
                        total, second = combine(total, second, new, new_second)
                    word, word_second = (before, before_second) if leaves_out else (total, second)
                    word, word_second = write(word, word_second)
                    if leaves_out and at == 0:
                        word, word_second = np.int64(none), np.int64(none_second)
                    store(target_line + out_width * step * at, word, word_second)

    return Kernel(scan_in_order, 3, plan=(2, fields.FIELDS))
