"""Arrays that have ``__dlpack__`` alone: the structs, who frees them, and calls with such arrays on a device."""

import ctypes
import gc

import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core.devices.dlpack import Borrowed, Tensor, _Deleter, _Managed, _ManagedVersioned

from . import reference

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Lender:
    """Lends host memory through capsules of its own, and counts how often it comes back."""

    def __init__(self, array, *, flags=None, major=1, code=2, bits=None, lanes=1, strides=None, offset=0):
        self.array, self.returned, self.streams = array, 0, []
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = strides and (ctypes.c_int64 * array.ndim)(*strides)
        bits = 8 * array.itemsize if bits is None else bits
        tensor = Tensor(array.ctypes.data, 2, 0, array.ndim, code, bits, lanes, self.shape, self.strides, offset)
        self.deleter = _Deleter(self.take_back)
        self.name = b"dltensor" if flags is None else b"dltensor_versioned"
        if flags is None:
            self.managed = _Managed(tensor, None, self.deleter)
        else:
            self.managed = _ManagedVersioned(major, 0, None, self.deleter, flags, tensor)

    def take_back(self, address):
        assert address == ctypes.addressof(self.managed)
        self.returned += 1

    def __dlpack__(self, *, stream):
        self.streams.append(stream)
        return new_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack_device__(self):
        return 2, 0


class Versioned(Lender):
    def __dlpack__(self, *, stream, max_version):
        assert max_version == (1, 0)
        return super().__dlpack__(stream=stream)


@pytest.mark.parametrize("flags", [None, 0, 1, 2])
def test_what_is_lent_comes_back_once(flags):
    a = np.arange(24, dtype="i4").reshape(4, 6)
    lender = (Lender if flags is None else Versioned)(a, flags=flags, code=0, strides=(6, -1), offset=20)
    borrowed = Borrowed(lender)
    assert (borrowed.pointer, borrowed.device) == (a.ctypes.data + 20, 0)
    assert (borrowed.shape, borrowed.strides, borrowed.dtype) == ((4, 6), (24, -4), np.dtype("i4"))
    assert borrowed.read_only == bool(flags)
    assert (lender.streams, lender.returned) == ([1], 0)
    del borrowed
    assert lender.returned == 1


@pytest.mark.parametrize(
    ("code", "dtype"), [(0, "i1"), (1, "u8"), (2, "f2"), (2, "f8"), (5, "c8"), (5, "c16"), (6, "?")]
)
def test_data_types_and_packed_strides(code, dtype):
    borrowed = Borrowed(Lender(np.zeros((2, 3, 4), dtype), code=code))
    assert borrowed.dtype == np.dtype(dtype)
    assert borrowed.strides == np.zeros((2, 3, 4), dtype).strides
    assert Borrowed(Lender(np.zeros((), dtype), code=code)).shape == ()


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert Borrowed(Lender(np.zeros(3, "u2"), code=4)).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lanes": 2}, "found DLPack data type 2 of 2 x 32 bits"),
        ({"code": 2, "bits": 4}, "found DLPack data type 2 of 1 x 4 bits"),
        ({"code": 3}, "found DLPack data type 3"),
        ({"flags": 0, "major": 2}, "found DLPack 2, expected version 1 or older"),
    ],
)
def test_what_cannot_be_used_comes_back_too(parameters, message):
    lender = Lender(np.zeros(3, "f4"), **parameters)
    with pytest.raises(TypeError, match=message):
        Borrowed(lender)
    gc.collect()
    assert lender.returned == 1


def test_a_library_that_does_not_lend():
    class Closed:
        def __dlpack__(self, **parameters):
            raise BufferError("not today")

    with pytest.raises(TypeError, match=r"found Closed, which does not lend its memory \(not today\)"):
        Borrowed(Closed())
    taken = Lender(np.zeros(3, "f4"))
    taken.name = b"used_dltensor"
    with pytest.raises(TypeError, match="found a capsule b'used_dltensor' of Lender, expected one that nobody took"):
        Borrowed(taken)
    assert taken.returned == 0


class Only:
    """An array of a library that the package does not know: ``__dlpack__`` and a namespace, nothing else."""

    device = "the device"

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream, max_version=None):
        assert stream == 1
        if isinstance(self.array, np.ndarray):  # the simulator's device memory
            return self.array.__dlpack__(max_version=max_version)
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return 2, 0

    def __setitem__(self, where, value):
        self.array[where] = value.array

    def cpu(self):
        return self.array if isinstance(self.array, np.ndarray) else self.array.cpu().numpy()


class WithNamespace(Only):
    def __array_namespace__(self):
        return Namespace


class Namespace:
    float32, int64, made = "float32", "int64", 0

    @classmethod
    def empty(cls, shape, *, dtype, device):
        assert device == WithNamespace.device
        cls.made += 1
        return WithNamespace(on_device(np.empty(shape, dtype)))


def on_device(array):
    """Return an array in the memory of a device, which is the host's in the simulator."""
    from numba_dml.cuda.driver import numba

    if numba.SIMULATED:
        return array
    return pytest.importorskip("torch").from_numpy(array).cuda()


@pytest.fixture
def room(target):
    if target != "cuda":
        pytest.skip("about the target cuda")
    from numba_dml.cuda.driver import numba

    return numba


def pair(array):
    return array, WithNamespace(on_device(array))


@pytest.mark.usefixtures("room")
def test_calls_return_the_type_of_the_library():
    (a, x), (i, j) = pair(np.arange(12, dtype="f4").reshape(4, 3)), pair(np.array([2, 0, -1]))
    before = Namespace.made
    found = dml.gather(x, j)
    assert type(found) is WithNamespace
    assert reference.same(found.cpu(), a[i])
    values, indices = dml.top_k(x, 2, axis=0)
    assert type(values) is type(indices) is WithNamespace
    assert all(
        reference.same(x.cpu(), y) for x, y in zip((values, indices), reference.top_k(a, 2, axis=0), strict=True)
    )
    u, updates = pair(np.full((2, 3), 7, "f4"))
    k, where = pair(np.array([[1], [3]]))
    found = dml.scatter_nd(x, where, updates, bounds="deferred")
    assert reference.same(found.cpu(), reference.scatter_nd(a, k, u))
    assert Namespace.made == before + 4
    with pytest.raises(IndexError, match=r"gather: indices\[1\] = 4 is out of range for axis 0 of size 4"):
        dml.gather(x, pair(np.array([1, 4]))[1])


@pytest.mark.usefixtures("room")
def test_outputs_are_written_unless_they_are_read_only():
    (a, x), (i, j) = pair(np.arange(12, dtype="f4").reshape(4, 3)), pair(np.array([2, 0]))
    _, out = pair(np.zeros((2, 3), "f4"))
    assert dml.gather(x, j, out=out) is out
    assert reference.same(out.cpu(), a[i])
    _, wide = pair(np.zeros((2, 6), "f4"))
    every_second = WithNamespace(wide.array[:, ::2])
    assert dml.gather(x, j, out=every_second) is every_second
    assert reference.same(wide.cpu()[:, ::2], a[i])
    assert not wide.cpu()[:, 1::2].any()
    closed = Versioned(np.zeros((2, 3), "f4"), flags=1)
    with pytest.raises(ValueError, match="gather: out: found a read-only array, expected one that can be written"):
        dml.gather(x, j, out=closed)
    assert closed.returned == 1


def test_memory_comes_back_after_the_call(room):
    where, memory = pair(np.array([1]))[1], np.arange(4, dtype="f4")
    if room.SIMULATED:
        lender, out = Lender(memory), WithNamespace(np.zeros(1, "f4"))
        dml.gather(lender, where, out=out)
        assert (lender.streams, lender.returned) == ([1], 1)
        with pytest.raises(IndexError):
            dml.gather(lender, pair(np.array([9]))[1], out=out)
        gc.collect()
        assert lender.returned == 2
    else:
        torch = pytest.importorskip("torch")
        dml.gather(pair(memory)[1], where)
        gc.collect()
        before = torch.cuda.memory_allocated()
        for bounds in ("raise", "deferred"):
            dml.gather(pair(memory)[1], where, bounds=bounds)
            gc.collect()
            assert torch.cuda.memory_allocated() == before


def test_results_are_numbas_without_a_namespace(room):
    if room.SIMULATED:
        pytest.skip("needs a device")
    from numba import cuda

    a, i = np.arange(12, dtype="f4").reshape(4, 3), np.array([2, 0])
    found = dml.gather(Only(on_device(a)), Only(on_device(i)))
    assert cuda.is_cuda_array(found)
    assert reference.same(found.copy_to_host(), a[i])


def test_a_library_of_the_standard(room):
    """PyTorch's tensors behind nothing but ``__dlpack__``, on a stream that the call cannot know."""
    if room.SIMULATED:
        pytest.skip("needs a device")
    torch = pytest.importorskip("torch")
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.randn(1000, 300, device="cuda")
        j = torch.randint(0, 1000, (50_000,), device="cuda")
        found = dml.gather(WithNamespace(x * 2), WithNamespace(j), bounds="deferred")
        assert torch.equal(found.array, (x * 2)[j])
    dml.check()


def test_a_capture_is_refused_before_it_breaks(room):
    if room.SIMULATED:
        pytest.skip("needs a device")
    from numba_dml.cuda.driver import streams

    torch = pytest.importorskip("torch")
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(
            RuntimeError, match="CUDA: found an array that has __dlpack__ alone on a stream that is cap"
        ):
            streams.wait_for(0, None, torch.cuda.current_stream().cuda_stream)
        x.zero_()
    graph.replay()
    assert not x.any()
