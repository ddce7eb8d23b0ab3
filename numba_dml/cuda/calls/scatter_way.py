"""What the ways to scatter share."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._core.devices.arrays import DeviceArray


class ScatterArguments(NamedTuple):
    """The arrays and numbers of one launch of a scatter."""

    old: int  #: Address of the elements that the updates leave, maybe the output's.
    indices: DeviceArray
    updates: DeviceArray
    out: DeviceArray
    stream: int
    record: int  #: Address where a bad index is recorded.
    number: int  #: Number of the launch.
    all_or_none: int  #: 1: nothing may be written if an index is bad.


class ScatterWay:
    """A way to scatter that needs a certain layout."""

    call: Any
    #: It writes all of the output, so that it can copy the elements that the updates leave.
    covers: bool

    def suits(self, old: int, updates: int, out: int) -> bool:
        """Tell whether arrays at these addresses can go this way."""
        return True

    def copies(self, old: int, out: int) -> bool:
        """Tell whether it copies the elements that the updates leave from one address to another."""
        return self.covers

    def __call__(self, given: ScatterArguments) -> Any:
        """Write the updates over the elements at the address `old`; return memory in use until all is done."""
        raise NotImplementedError
