"""What inline PTX and its twins in Python, for the simulator, have in common."""

from __future__ import annotations

import ctypes

import numpy as np

from ..driver.context import can_come_early
from ..driver.intrinsics import ptx, shared_type

__all__ = ["ARRAY_TYPES", "await_inputs", "load_twin", "pointer_at", "ptx", "store_twin", "words_twin"]

#: Types as arrays in dynamic shared memory want them.
ARRAY_TYPES = {kind: shared_type(kind.__name__) for kind in (np.int16, np.int32, np.int64)}
#: ``await_inputs()``, the first step of every kernel: until all is done that was launched before.
await_inputs = ptx("griddepcontrol.wait;" if can_come_early() else "", 0, 0, lambda: None)


def pointer_at(kind, address):
    return ctypes.cast(int(address), ctypes.POINTER(kind))


def load_twin(kind):
    return lambda address: _as_int64(pointer_at(kind, address)[0])


def words_twin(kind, count):
    return lambda address: tuple(pointer_at(kind, address)[:count])


def store_twin(kind):
    def store(address, number):
        pointer_at(kind, address)[0] = number

    return store


def _as_int64(value):
    return value - (1 << 64) if value >> 63 > 0 else value
