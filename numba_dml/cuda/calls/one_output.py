"""What calls with one output share: what becomes of the caller's array, and how they are made again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from numpy import ndarray

from ..._core.devices.arrays import DeviceArray
from ..._core.operands import check_out
from ..driver.arrays import OWN, Output, Span, assign, join
from ..driver.context import is_current, on_device
from ..driver.streams import refuse_capture
from ..replay.repeat import Repeatable


class OneOutputCall(Repeatable):
    """A call with one output: it may be None, a strided array, or one that overlaps an input."""

    function: str
    output: Output
    #: Where the inputs lie that an output may overlap. A copy, which nobody calls with an output, has none.
    spans: Sequence[Span]
    #: The output may be the first input itself, which is read and written element by element.
    in_place = False
    #: There is nothing to launch.
    idle = False
    #: The bounds that a capture takes.
    instead = "'deferred' or 'drop'"

    def __call__(self, a: DeviceArray, *others: Any) -> Any:
        """Make the call, with the other inputs and the output, which may be None."""
        inputs, out = (a, *others[:-1]), others[-1]
        if not is_current(a.device):
            with on_device(a.device):
                return self(a, *others)
        if out.__class__ is ndarray and a.library is OWN:  # the inputs are copies
            check_out(self.function, "out", out, self.output.shape, self.output.dtype)
            out[...] = self(*inputs, None)
            return out
        stream = a.stream
        if self.checked:  # this takes under a microsecond, the wait at the end many
            refuse_capture(stream, f"{self.function}: bounds: found 'raise'", self.instead)
        if out is None:
            target = self.output.new(a)
        else:
            target, is_target_packed = self.output.view(a, out)
            if not is_target_packed or self.overlaps(target, inputs):
                assign(a, out, self(*inputs, None))
                return out
        if not self.idle:
            waiting = join(stream, *inputs, target)
            self.launch_recorded(inputs, (target,), partial(self.launch, *inputs, target, stream, waiting))
        return out if out is not None else a.library.finish(target, stream)

    def launch(self, *arguments: Any) -> None:
        """Run the kernels on the inputs and the output, and let the other streams wait for that one."""
        raise NotImplementedError

    def overlaps(self, out: DeviceArray, inputs: tuple[DeviceArray, ...]) -> bool:
        """Tell whether the memory of a packed output may overlap an input's, unless it is the first input itself."""
        for array, span in zip(inputs, self.spans, strict=False):
            distance = out.pointer - array.pointer
            if distance < span.high and span.low < distance + self.output.size:
                is_first = array is inputs[0] and distance == 0 and out.strides == array.strides
                if not (self.in_place and is_first):
                    return True
        return False

    def repeat(self, *arrays: Any, out: Any) -> Any:
        """Make the call again with arrays of a library; return None if they are not like the recorded ones."""
        again = self.again
        if again is None:
            return None
        result = again.new(self.output) if out is None else out
        return None if again((*arrays, result)) is None else result
