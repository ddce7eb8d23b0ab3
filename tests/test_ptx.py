"""On a GPU every step that is inline PTX returns what its twin does, which the simulator runs instead."""

import importlib
import os
import pkgutil
import random
import re
import sys

import numpy as np
import pytest

TARGETS = os.environ.get("NUMBA_DML_TEST_TARGETS", "cpu").split(",")
if "cuda" not in TARGETS or os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    # Only the driver of a GPU compiles PTX: in the simulator the twins run, and there is nothing to compare them with.
    pytest.skip("needs a GPU, which PTX runs on", allow_module_level=True)

primitives = importlib.import_module("numba_dml.cuda.primitives")  # numba-cuda loads with it, without warnings
ptx = importlib.import_module("numba_dml.cuda.driver.intrinsics")
warp = importlib.import_module("numba_dml.cuda.primitives.warp")
shared_address = importlib.import_module("numba_dml.cuda.primitives.shared").shared_address
cuda = importlib.import_module("numba.cuda")

#: Few blocks are enough to compare.
pytestmark = pytest.mark.filterwarnings("ignore:.*under-utilization")
#: Lanes of a block, blocks, and the bytes of memory that each lane has.
LANES, BLOCKS, SLOT = 32, 64, 32
#: Words of 8 bytes that a lane has, and a block.
WORDS, ROOM = SLOT // 8, LANES * SLOT // 8
SHIFTS = [0, 1, 5, 31]
#: The arguments of steps that are not for all numbers.
CHOICES = {
    "digit_above": [None, None, [*SHIFTS, 32, 63]],
    "DIGIT_ABOVE[32]": [None, None, SHIFTS],
    "DIGIT_ABOVE[64]": [None, None, [*SHIFTS, 32, 63]],
    "raise_key": [None, None, [*SHIFTS, 32, 63]],
    "half_word": [None, [0, 16]],
    "upper": [None, [*SHIFTS, 32, 63]],
    "lowest_bit": [[1, 2, 3 << 30, 1 << 31, 0xFFFFFFFF, 0b101000]],
    "count_bits": [[0, 1, 3, (1 << 63) - 1, 0b101000]],
    "negative_word": [[0, 1, -1, 5, 2**31 - 1, -(2**31) + 1]],
    **{f"PARTNER_VALUE[{bits}]": [None, [0, 1, 2, 4, 8, 16, 31]] for bits in (32, 64)},
    **{f"LANE_VALUE[{bits}]": [None, [0, 1, 31, 40]] for bits in (32, 64)},
    "sum_of_lanes": [[0, 1, 2, 1000]],
    # 0, -0, 1, -1, 2**-53, the largest float64 and infinity.
    "add_floats": [[0, -(1 << 63), 0x3FF << 52, -0x401 << 52, 0x3CA << 52, 0x7FEFFFFFFFFFFFFF, 0x7FF << 52]] * 2,
    "lanes_where": [[0, 1, -1, 7]],
    "lanes_with_digit": [[0, 1, 5, 14]],
    # One or minus one, as float32, two float16, and a factor of two bfloat16.
    **{
        f"FLOAT_KEYS[{infinity}][0]": [None, scales, [0, -1]]
        for infinity, scales in {
            0x7F800000: [0x3F800000, 0xBF800000],
            0x7C00: [0x3C003C00, 0xBC00BC00],
            0x7F80: [0x3F800000, 0xBF800000],
        }.items()
    },
}
#: Steps that have a test of their own, or nothing to compare: they wait, or copy while others work.
WITHOUT = re.compile(r"cp\.async|griddepcontrol|prefetch|bar\.|mbarrier|fence")


def named_steps():
    """Return all steps that the modules of primitives and kernels have, by name."""
    for package in (primitives, importlib.import_module("numba_dml.cuda.kernels")):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    names, known = {}, {id(step) for step in ptx.STEPS}

    def note(name, value, depth=0):
        if isinstance(value, dict) and depth < 2:
            for key, part in value.items():
                note(f"{name}[{key}]", part, depth + 1)
        elif isinstance(value, (tuple, list)) and depth < 3:
            for i, part in enumerate(value):
                note(f"{name}[{i}]", part, depth + 1)
        elif id(value) in known:
            names.setdefault(id(value), name)

    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("numba_dml.cuda.") and module is not None:
            for name, value in vars(module).items():
                if value is not ptx.STEPS:
                    note(name, value)
    return {names.get(id(step), f"step {i}: {about.asm}"): step for i, (step, about) in enumerate(ptx.STEPS.items())}


STEPS = {name: step for name, step in named_steps().items() if not WITHOUT.search(ptx.STEPS[step].asm)}


def address_of(about):
    """Return the number of the argument that is an address, or None."""
    found = re.search(r"\[\$(\d)", about.asm)
    if found is None and re.search(r"\[a[\]+]", about.asm):
        found = re.search(r"cvt\.u32\.u64 a, \$(\d)", about.asm)
    return int(found[1]) - about.results if found else None


#: ``take(a, b, c, d)``, which gives a step as many arguments as it has: a kernel cannot, of a number that varies.
TAKING = {
    1: lambda step: lambda a, b, c, d: step(a),
    2: lambda step: lambda a, b, c, d: step(a, b),
    3: lambda step: lambda a, b, c, d: step(a, b, c),
    4: lambda step: lambda a, b, c, d: step(a, b, c, d),
}


def note_none(found, result):
    """Note no result."""


def note_one(found, result):
    """Note one result."""
    found[0] = result


def note_all(found, results):
    """Note the results of a tuple."""
    for i in range(len(results)):
        found[i] = results[i]


def kernel_of(step, about):
    """Return ``kernel(arguments, found, memory, start)``: a block is a warp, whose lanes have numbers of their own."""
    is_shared, at = ".shared" in about.asm, address_of(about)
    take = cuda.jit(device=True)(TAKING[about.arguments](step))
    note = cuda.jit(device=True)({0: note_none, 1: note_one}.get(about.results, note_all))

    @cuda.jit
    def kernel(arguments, found, memory, start):
        block, lane = cuda.blockIdx.x, cuda.threadIdx.x
        room = cuda.shared.array(ROOM, np.int64)
        for j in range(WORDS):
            room[lane * WORDS + j] = memory[block, lane, j]
        cuda.syncthreads()
        address = (shared_address(room) if is_shared else start + block * LANES * SLOT) + lane * SLOT
        given = arguments[block, :, lane]
        a, b = address if at == 0 else given[0], address if at == 1 else given[1]
        c, d = address if at == 2 else given[2], address if at == 3 else given[3]
        note(found[block, :, lane], take(a, b, c, d))
        cuda.syncthreads()
        for j in range(WORDS if is_shared else 0):
            memory[block, lane, j] = room[lane * WORDS + j]

    return kernel


def numbers(rng, about, choices):
    """Return arguments for all lanes of all blocks: small and large ones, and those around the limits of words."""
    limit = 1 << (about.of - 1)
    edges = [0, 1, -1, 2, 31, 32, -32, limit - 1, -limit, (1 << 31) - 1, -(1 << 31), 0x7F800000, 0x3C00, 0x7C00]
    made = np.zeros((BLOCKS, len(TAKING), LANES), np.int64)
    for block in range(BLOCKS):
        for i in range(about.arguments):
            allowed = choices[i] if choices and choices[i] is not None else None
            for lane in range(LANES):
                if allowed is not None:
                    number = rng.choice(allowed)
                elif rng.random() < 0.5:
                    number = rng.choice(edges)
                else:
                    number = rng.randrange(-limit, limit) >> rng.randrange(about.of)
                made[block, i, lane] = max(min(number, limit - 1), -limit) if allowed is None else number
    return made


@pytest.mark.parametrize("name", STEPS)
def test_a_step_does_what_its_twin_does(name, monkeypatch):
    step = STEPS[name]
    about = ptx.STEPS[step]
    rng = random.Random(name)
    arguments = numbers(rng, about, CHOICES.get(name))
    memory = np.array([rng.randrange(-(2**63), 2**63) for _ in range(BLOCKS * LANES * SLOT // 8)])
    memory = memory.reshape(BLOCKS, LANES, SLOT // 8)
    on_device = cuda.to_device(memory)
    found = cuda.to_device(np.zeros((BLOCKS, max(about.results, 1), LANES), np.int64))
    start = on_device.__cuda_array_interface__["data"][0]
    kernel_of(step, about)[BLOCKS, LANES](cuda.to_device(arguments), found, on_device, start)
    found, after = found.copy_to_host(), on_device.copy_to_host()
    at = address_of(about)
    for block in range(BLOCKS):
        for lane in range(LANES):
            given = [int(arguments[block, i, lane]) for i in range(about.arguments)]
            if about.of == 32:
                given = [(number + (1 << 31)) % (1 << 32) - (1 << 31) for number in given]
            if at is not None:
                given[at] = memory[block, lane].ctypes.data
            met = lane, [int(number) for number in arguments[block, 0]]
            monkeypatch.setattr(warp, "_meet", lambda value, met=met: met)
            expected = about.twin(*given)
            expected = [] if about.results == 0 else [expected] if about.results == 1 else list(expected)
            for i, number in enumerate(expected):
                got = int(found[block, i, lane])
                assert (got - int(number)) % (1 << about.bits) == 0, (given, got, number)
    np.testing.assert_array_equal(after, memory)
