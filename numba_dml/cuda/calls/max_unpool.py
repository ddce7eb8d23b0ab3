"""The call of max_unpool on a device: one value everywhere, then a scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..driver.arrays import spans_of
from ..driver.launch import recorder
from ..driver.memory import OnDevices
from ..primitives.fill import set_words
from ..primitives.groups import QUAD_BYTES
from .gather import copy
from .scatter import ScatterCall


class MaxUnpoolCall(ScatterCall):
    """Max_unpool of one layout: a scatter whose input is one value, with strides of 0."""

    def __init__(self, descriptor: Any, layouts: Any, output_shapes: tuple[tuple[int, ...], ...]) -> None:
        data, indices, shape = descriptor.input_tensor, descriptor.indices_tensor, output_shapes[0]
        layouts_of_scatter = ((0,) * len(shape), data.dtype), layouts[1], layouts[0]
        spans = spans_of((descriptor.output_tensor, indices, data), layouts_of_scatter)
        super().__init__(descriptor.lower([layouts[0][0]]), data.dtype, shape, spans)
        self.values = OnDevices(np.zeros(1, data.dtype))

    def __call__(self, a: DeviceArray, *others: Any) -> Any:
        """Make the call, with the indices, the value that stands elsewhere (or without it, for 0) and the output."""
        indices, *fill, out = others
        if fill and not isinstance(fill[0], ndarray):  # a call of its own, for another device or output
            return super().__call__(a, *others)
        if fill:
            self.values.contents = fill[0].reshape(1)
        memory, shape = self.values[a.device], self.output.shape
        strides = (0,) * len(shape)
        value = DeviceArray(memory, a.library, memory.address, shape, strides, self.dtype, a.device, a.stream)
        value.home = a.home
        return super().__call__(value, indices, a, out)

    def old_elements(self, a: DeviceArray, out: DeviceArray, stream: int) -> int:
        recorder.note(None)  # the value is no array of the caller's
        if 8 % self.dtype.itemsize or (out.pointer | self.out_bytes) % QUAD_BYTES:
            copy(a, out, stream)
        else:
            word = np.tile(self.values.contents, 8 // self.dtype.itemsize).view(np.int64)
            set_words(out.device, stream, out.pointer, self.out_bytes, int(word[0]))
        return out.pointer


build = MaxUnpoolCall
