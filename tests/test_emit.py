"""What helpers are compiled to does what Python does; see `numba_dml._jit.helper_compiler`."""

import itertools
import operator
from types import FunctionType

import numba
import numpy as np
import pytest
from numba import types
from numba.core.codegen import CPUCodeLibrary

from numba_dml._jit.compile import allocating, helper

pytestmark = pytest.mark.cpu


def entry(function):
    """Return a jitted function that Python can call, and that calls a helper."""

    def call(*args):
        return function(*args)

    return numba.njit(call)


STEPS = [1, 2, 3, 7, -1, -2, -5]


def counter(step):
    def count(first, end, seen):
        last = np.int64(-1000)
        for i in range(first, end, step):
            seen[0] += 1
            last = i
        return last

    return count


@pytest.mark.parametrize("decorate", [helper, allocating])
@pytest.mark.parametrize("step", STEPS)
def test_loops_of_known_steps(step, decorate):
    count = entry(decorate(counter(step)))
    for first, end in itertools.product(range(-8, 9), repeat=2):
        seen = np.zeros(1, np.int64)
        numbers = range(first, end, step)
        assert count(first, end, seen) == (numbers[-1] if numbers else -1000)
        assert seen[0] == len(numbers)


@helper
def in_loops(n, step, out):
    """Loop in all ways; leave and go on within."""
    total = 0
    for i in range(n):
        if i == 3:
            continue
        for j in range(1, n):
            if j > i:
                break
            for k in range(n, j, step):
                total += 100 * i + 10 * j + k
    out[0] = total


def test_loops_in_loops_and_steps_that_a_caller_gives():
    call = entry(in_loops)
    for n, step in itertools.product(range(7), STEPS):
        out = np.zeros(1, np.int64)
        call(n, step, out)
        expected = 0
        for i, j in itertools.product(range(n), range(1, n)):
            if i != 3 and j <= i:
                expected += sum(100 * i + 10 * j + k for k in range(n, j, step))
        assert out[0] == expected


@helper
def low_and_high(a, b):
    """Return the lower and the higher of two."""
    return min(a, b), max(a, b)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8, np.uint64, np.float32])
def test_the_lower_and_the_higher(kind):
    call = entry(low_and_high)
    low, high = (0, 1) if kind is np.float32 else (np.iinfo(kind).min, np.iinfo(kind).max)
    numbers = [kind(low), kind(0), kind(1), kind(high)]
    for a, b in itertools.product(numbers, repeat=2):
        assert call(a, b) == (min(a, b), max(a, b))
    assert call(np.int32(-3), np.int64(2**40)) == (-3, 2**40)


@helper
def move(target, source, to, fro):
    """Copy an element, and from a known place to another one."""
    target[to] = source[fro]
    target[0] = source[1]


ELEMENTS = [np.bool_, np.int8, np.uint16, np.int32, np.uint64, np.float32, np.float64, np.complex64]


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("number", [np.int8, np.uint8, np.int64, np.uint64])
def test_elements(dtype, number):
    source, target = np.arange(200).astype(dtype), np.zeros(200, dtype)
    source[3] = 1
    entry(move)(target, source, number(120), number(3))
    expected = np.zeros(200, dtype)
    expected[120], expected[0] = source[3], source[1]
    np.testing.assert_array_equal(target, expected)


def test_elements_of_what_is_no_vector():
    call = entry(allocating(move.py_func))  # a line is an array of its own
    lines = np.arange(12.0).reshape(3, 4)
    target = np.zeros((3, 4))
    call(target, lines, 2, 2)  # whole lines
    np.testing.assert_array_equal(target, [lines[1], [0] * 4, lines[2]])
    spread, wide = np.zeros(9)[::3], np.arange(9.0)[::2]
    call(spread, wide, 2, 3)
    assert spread.tolist() == [2, 0, 6]
    call(target := np.zeros(3), np.arange(3), 2, 2)
    assert target.tolist() == [1, 0, 2]


OPERATIONS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.truediv]
OPERATIONS += [operator.lt, operator.eq, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_operations(operation):
    call = entry(helper(lambda a, b: operation(a, b)))
    for a, b in [(7, 3), (-7, 3), (7, 1), (2**40, 5)]:
        assert call(a, b) == operation(a, b)
    assert call(np.uint8(200), np.uint8(3)) == operation(200, 3)


def compare(a, b):
    """Compare tuples, which code that Numba compiles does."""
    return (a, b) == (b, a), (a, b) < (b, a)


def test_tuples():
    for again in range(2):  # what emits it is known the second time
        call = entry(helper(FunctionType(compare.__code__, globals(), f"compare_{again}")))
        assert [call(1, b) for b in (0, 1, 2)] == [(False, False), (True, False), (False, True)]


@helper
def power(a):
    """Raise to a known power, which Numba unrolls."""
    return a**3, a**-1.0


def test_a_power():
    assert entry(power)(2.0) == (8.0, 0.5)


@helper
def refuse(a, code):
    """Raise an error."""
    if a[0] == code:
        raise ValueError("a[0] is refused")
    if a[0] == code + 1:
        raise IndexError
    a[0] += 1


@helper
def refuse_some(a, code, found):
    """Call what raises in a loop, and go on behind it."""
    for _ in range(3):
        refuse(a, code)
        found[0] += 1


@allocating
def refuse_with_memory(a, code, found):
    """Own memory while what is called raises."""
    refuse_some(a, code, np.ones(1000, np.int64))
    refuse_some(a, code, found)


@pytest.mark.parametrize("function", [refuse_some, refuse_with_memory])
def test_errors_get_to_whoever_called(function):
    call = entry(function)
    found = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="is refused"):
        call(np.full(1, 5), 5, found)
    with pytest.raises(IndexError):
        call(np.full(1, 6), 5, found)
    found[0] = 0
    call(np.full(1, 9), 5, found)
    assert found[0] == 3


@helper
def known(a):
    """Return a number, or nothing."""
    return a if a > 0 else None


@helper
def known_or_less(a):
    """Tell nothing from a number."""
    b = known(a)
    return -1 if b is None else b


def test_nothing():
    call = entry(known_or_less)
    assert [call(a) for a in (-5, 0, 3)] == [-1, -1, 3]


@helper
def sums(a, n, out):
    """Assign variables in branches and loops, before and behind."""
    first, second = 0, 0
    for i in range(n):
        if a[i] > 0:
            last = a[i]
            first += last
        else:
            second, first = first, second
    out[0], out[1] = first, second
    pair = (first, second)
    return pair[0] - pair[1]


def test_variables():
    call, rng = entry(sums), np.random.default_rng(5)
    for n in range(20):
        a, out = rng.integers(-3, 4, n + 1), np.zeros(2, np.int64)
        expected = np.zeros(2, np.int64)
        assert call(a, n, out) == sums.py_func(a, n, expected)
        np.testing.assert_array_equal(out, expected)


def test_fewer_instructions(monkeypatch):
    written = []
    add = CPUCodeLibrary.add_ir_module
    monkeypatch.setattr(CPUCodeLibrary, "add_ir_module", lambda self, ir: written.append(str(ir)) or add(self, ir))
    lengths = []
    for jit in (helper, numba.njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)):
        written.clear()
        jit(sums.py_func).compile((types.int64[::1], types.int64, types.int64[::1]))
        lengths.append(sum(text.count("\n") for text in written))
    assert 0 < 3 * lengths[0] < 2 * lengths[1]
