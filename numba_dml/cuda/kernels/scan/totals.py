"""Sums of the totals of blocks: each becomes the sum of those before it in its block of totals, for the last pass."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...._core.enums import TensorDataType as D
from ...._core.lowering import SUM_BLOCK
from ...driver.launch import Kernel
from ...driver.numba import LANES, SIMULATED, cuda
from ...primitives.access import OWN_LOAD, unit_access
from ...primitives.ptx import await_inputs
from ...primitives.scan import sums
from ...primitives.warp import sync_lanes

load, (_, store) = OWN_LOAD["uint64"], unit_access(8)
#: Warps of a thread block; the simulator's have two.
WARPS = (1, 2)[SIMULATED]
WARP_CELLS = -(-SUM_BLOCK // LANES) * LANES
CELLS = WARPS * WARP_CELLS


@cache
def totals_kernel(kind: D) -> Kernel:
    """Return the kernel for float64 or int64: a warp for each block of totals, all of whose lanes add them up."""
    plus, none = sums(kind, kind).add, sums(kind, kind).absent

    def sum_totals(
        totals,  # IN OUT  address of the totals, (outer, size, inner)
        above,  # OUT  address of the totals of blocks of totals, (outer, blocks, inner); 0: they are not written
        size,
        inner,
        rows,  # blocks of totals, of all lines
    ):
        await_inputs()
        cells = cuda.shared.array(CELLS, np.int64)
        lane, warp = np.int64(cuda.threadIdx.x % LANES), np.int64(cuda.threadIdx.x // LANES)
        row, own = np.int64(cuda.blockIdx.x) * WARPS + warp, warp * WARP_CELLS
        if row >= rows:
            return
        blocks = (size + SUM_BLOCK - 1) // SUM_BLOCK
        set_of_rows, column = row // inner, row % inner
        outer, block = set_of_rows // blocks, set_of_rows % blocks
        first = totals + 8 * ((outer * size + block * SUM_BLOCK) * inner + column)
        count = min(size - block * SUM_BLOCK, SUM_BLOCK)
        for at in range(lane, WARP_CELLS, LANES):
            cells[np.uint32(own + at)] = load(first + 8 * at * inner) if at < count else np.int64(none)
        sync_lanes()
        total = kept = np.int64(none)
        for start in range(0, count, LANES):
            for k in range(LANES):
                if k == np.int32(lane):
                    kept = total
                total = plus(total, cells[np.uint32(own + start + k)])
            if start + lane < count:
                store(first + 8 * (start + lane) * inner, kept, 0)
        if lane == 0 and above != 0:
            store(above + 8 * row, total, 0)

    return Kernel(sum_totals, 5, waits=True, threads=WARPS * LANES)
