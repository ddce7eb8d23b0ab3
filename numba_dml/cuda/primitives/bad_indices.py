"""Bad indices: how a kernel records the first one, and how the host reads it.

A record is five words: a lock, the number of the launch, the position in the indices, the value, and the plan's
identity, which tells the host whose it is. The first launch that meets a bad index keeps the record until the host has
read it; within that launch the lowest position wins. Nobody writes while indices are good.

The record is in host memory, far away. Before it there is a gate in device memory: a word with the lowest position that
came by, and its launch. Of millions of bad indices only the few that lower it go on to the record and its lock.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..driver.compile import helper
from ..driver.context import on_device
from ..driver.memory import DeviceMemory, HostWords, set_bytes
from ..driver.numba import cuda
from ..driver.streams import synchronize
from .atomics import exchange_if, load_now, store_now

LOCK, LAUNCH, POSITION, VALUE, PLAN, RECORD = range(6)
NOTHING = -1
#: The gate, and the address of the record.
GATE, WORDS = range(2)
#: In a gate, below the last bits of the launch's number: bits of a position, which memory has not room for more of.
POSITION_BITS = 40
LAUNCH_MASK = (1 << 22) - 1
_EMPTY = np.array([0, NOTHING, 0, 0, 0], np.int64)


@helper
def record_bad(
    gate,  # IN OUT  address of a gate
    launch,  # IN      the number of this launch
    position,  # IN    of the index, in elements
    value,  # IN       the index
    plan,  # IN        identity of the plan
):
    """Record a bad index unless an earlier launch, or a lower position of this one, has been recorded."""
    lowest = ((launch & LAUNCH_MASK) << POSITION_BITS) | position
    passed = load_now(gate + 8 * GATE)
    waiting = True
    while waiting:
        if passed >> POSITION_BITS == launch & LAUNCH_MASK and passed <= lowest:
            return
        found = exchange_if(gate + 8 * GATE, passed, lowest)
        waiting = found != passed
        passed = found
    record = load_now(gate + 8 * WORDS)
    waiting = True
    while waiting:
        first = load_now(record + 8 * LAUNCH)
        cuda.threadfence()  # not a position of the record before this one
        if first != NOTHING and (first != launch or load_now(record + 8 * POSITION) <= position):
            waiting = False
        elif exchange_if(record + 8 * LOCK, 0, 1) == 0:
            first = load_now(record + 8 * LAUNCH)
            if first == NOTHING or (first == launch and position < load_now(record + 8 * POSITION)):
                store_now(record + 8 * POSITION, position)
                store_now(record + 8 * VALUE, value)
                store_now(record + 8 * PLAN, plan)
                cuda.threadfence_system()  # the host may look while this kernel runs, after another stream's
                store_now(record + 8 * LAUNCH, launch)
            cuda.threadfence()
            exchange_if(record + 8 * LOCK, 1, 0)
            waiting = False


@helper
def has_bad(gate, launch):
    """Tell whether a launch has recorded a bad index. No launch has the number -1."""
    return launch >= 0 and load_now(gate + 8 * GATE) >> POSITION_BITS == launch & LAUNCH_MASK


class Record:
    """A record and its gate, which is what kernels are given the address of."""

    def __init__(self, device: int) -> None:
        self.host = HostWords(device, _EMPTY)
        self.words = self.host.words
        self.gate = DeviceMemory(device, np.array([NOTHING, self.host.address], np.int64))
        self.address = self.gate.address

    def clear(self) -> None:
        """Empty it, after a launch that recorded something; another stream's may be about to record, and then will."""
        self.words[LAUNCH] = NOTHING
        with on_device(self.gate.device):
            set_bytes(self.address + 8 * GATE, 0xFF, 8, 0)


class Records:
    """The records of a device: some for calls that raise at once, and one for those that are deferred."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.free: deque[Record] = deque()
        self.deferred = Record(device)
        #: The calls that deferred their check since the last one, and the rank and index shape that they were given;
        #: and those before it, as long as they are there: one may be on its way still, or in a graph that is replayed.
        self.calls: dict[Any, tuple[int, tuple[int, ...]]] = {}
        self.earlier: WeakKeyDictionary[Any, tuple[int, tuple[int, ...]]] = WeakKeyDictionary()
        self.lock = threading.Lock()

    def take(self) -> Record:
        """Return an empty record that nobody uses."""
        try:
            return self.free.pop()
        except IndexError:
            return Record(self.device)

    def read(self, record: Record, stream: int | None) -> tuple[int, int, int] | None:
        """Wait for a stream; return the position, the value and the plan of a record, if there is any, and empty it."""
        synchronize(stream)
        if record.words[LAUNCH] == NOTHING:
            return None
        found = tuple(record.words[[POSITION, VALUE, PLAN]].tolist())
        record.clear()
        return found  # type: ignore[return-value]

    def defer(self, call: Any, ndim: int, index_shape: tuple[int, ...]) -> None:
        """Note a call that is about to be launched, and the rank and index shape that it was given."""
        with self.lock:
            self.calls[call] = ndim, index_shape

    def check(self, stream: int | None) -> None:
        """Raise what the deferred calls recorded."""
        with self.lock:
            calls, self.calls = self.calls, {}
            self.earlier.update(calls)
        with on_device(self.device):
            found = self.read(self.deferred, stream)
        if found is None:
            return
        position, value, plan = found
        with self.lock:
            earlier = list(self.earlier.items())
        for call, (ndim, index_shape) in earlier:
            if call.has_plan(plan):
                raise call.error(ndim, index_shape, position, value)
        raise IndexError(f"index {value} at flat position {position} of a deferred call's indices is out of range")


_records: dict[int, Records] = {}
_lock = threading.Lock()


def records_of(device: int) -> Records:
    """Return the records of a device."""
    found = _records.get(device)
    if found is None:
        with _lock:
            found = _records.setdefault(device, Records(device))
    return found


def check_all(stream: int | None) -> None:
    """Raise the first bad index that deferred calls recorded on any device."""
    for records in list(_records.values()):
        records.check(stream)
