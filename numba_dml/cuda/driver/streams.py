"""Streams: waits of the host and of other streams."""

from __future__ import annotations

from ..._core.devices.arrays import DEFAULT_STREAM
from .context import _checked, _function, check, on_device
from .machine import in_simulator
from .numba import driver

_synchronize = _function("cuStreamSynchronize", 1)


@in_simulator(None)
def synchronize(stream: int | None) -> None:
    """Wait for a stream of the current device, or for all of them."""
    if stream is not None:
        check(_synchronize(stream))
    else:
        _checked(driver.cuCtxSynchronize())


@in_simulator(None)
def wait_for(device: int, stream: int | None, other: int | None) -> None:
    """Let a stream of a device wait for what another one was given so far; None is the host.

    What the host gives is complete after the default stream.
    """
    other = other or DEFAULT_STREAM
    if stream == other:
        return
    with on_device(device):
        if stream is None:
            refuse_capture(other, "CUDA: found an array that has __dlpack__ alone", "one of a library that has streams")
            synchronize(other)
            return
        event = _checked(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        _checked(driver.cuEventRecord(event, other))
        _checked(driver.cuStreamWaitEvent(stream, event, 0))
        _checked(driver.cuEventDestroy(event))


@in_simulator(None)
def refuse_capture(stream: int, found: str, expected: str) -> None:
    """Refuse a stream that is being captured in a CUDA graph, before a wait for it would break the capture."""
    status, captured = driver.cuStreamIsCapturing(stream)
    # The default stream cannot tell while a stream that it waits for is captured; what it is given would break that.
    if int(captured) or int(status) == int(driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT):
        raise RuntimeError(
            f"{found} on a stream that is captured in a CUDA graph, expected {expected}: a capture cannot wait"
        )
