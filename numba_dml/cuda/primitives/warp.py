"""Steps that the lanes of a warp take together: shuffles, ballots, sums."""

from __future__ import annotations

from ..driver.numba import LANES
from .ptx import ptx


def _meet(value: int) -> tuple[int, list[int]]:
    """Return this thread's number in its warp, and what every lane of it has come with."""
    from ..driver import simulator

    return simulator.meet(value)


def _step(asm, arguments, found, bits=32, of=32):
    """Return a step that the lanes of a warp take together; with a value of each, ``found(lane, values, ...)``."""
    return ptx(asm, 1, arguments, lambda value, *others: found(*_meet(value), *others), bits=bits, of=of, together=True)


def _shuffle(mode, found, bits):
    word, halves = "{ .reg .b32 a, n; cvt.u32.u64 n, $2; ", "{ .reg .b32 a, b, n; cvt.u32.u64 n, $2; "
    shuffle = "shfl.sync." + mode + ".b32 {0}, {0}, n, 31, -1; "
    if bits == 32:
        asm = word + "cvt.u32.u64 a, $1; " + shuffle.format("a") + "mov.b32 $0, a; }"
    else:
        asm = halves + "mov.b64 {a, b}, $1; " + shuffle.format("a") + shuffle.format("b") + "mov.b64 $0, {a, b}; }"
    return _step(asm, 2, found, bits, of=64)


#: By bits: ``partner_value(value, mask)``, what the lane with the number ``lane ^ mask`` has. All lanes take part.
PARTNER_VALUE = {bits: _shuffle("bfly", lambda lane, values, mask: values[lane ^ mask], bits) for bits in (32, 64)}
#: By bits: ``lane_value(value, lane)``, what a lane has; its number is taken modulo those of a warp. Below: by name.
LANE_VALUE = {bits: _shuffle("idx", lambda _, values, lane: values[lane % LANES], bits) for bits in (32, 64)}
lane_word, lane_long_word = LANE_VALUE[32], LANE_VALUE[64]

#: ``sum_of_lanes(value)``: the sum of the 32-bit numbers of this lane and of those before it. All lanes take part.
sum_of_lanes = _step(
    "{ .reg .pred p; .reg .u32 t, s; mov.u32 s, $1; "
    + "".join(f"shfl.sync.up.b32 t|p, s, {1 << i}, 0, -1; @p add.u32 s, s, t; " for i in range(LANES.bit_length() - 1))
    + "mov.u32 $0, s; }",
    1,
    lambda lane, values: sum(values[: lane + 1]),
)


def _sync_lanes_twin():
    from ..driver import simulator

    simulator.sync_lanes()


#: ``sync_lanes()``: the lanes of a warp wait for each other, and see what they have written to shared memory.
sync_lanes = ptx("bar.warp.sync -1;", 0, 0, _sync_lanes_twin)

#: ``lanes_where(flag)``: the lanes whose flag is not 0, as the bits of a word. All lanes take part.
lanes_where = _step(
    "{ .reg .pred p; setp.ne.u32 p, $1, 0; vote.sync.ballot.b32 $0, p, -1; }",
    1,
    lambda _, flags: sum(1 << lane for lane, flag in enumerate(flags) if flag != 0),
)


def lanes_with(bits):
    """Return ``same(value)``: the lanes whose values agree in the lower bits, as the bits of a word."""
    step = "and.b32 t, v, {}; setp.ne.u32 p, t, 0; vote.sync.ballot.b32 b, p, -1; @!p not.b32 b, b; and.b32 m, m, b; "
    steps = "".join(step.format(1 << bit) for bit in range(bits))
    asm = "{ .reg .pred p; .reg .b32 v, t, b, m; cvt.u32.u64 v, $1; mov.b32 m, -1; " + steps

    def found(lane, values):
        return sum(1 << other for other, value in enumerate(values) if (value ^ values[lane]) & ((1 << bits) - 1) == 0)

    return _step(asm + "cvt.u64.u32 $0, m; }", 1, found, bits=64, of=64)
