"""Which call is asked first, and what a library says of itself, without a device: target and library are made up."""

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import numba_dml as dml
from numba_dml._core import calls, operands, targets
from numba_dml._core.devices import arrays, dlpack, libraries
from numba_dml._core.devices.dlpack import Exchange

pytestmark = pytest.mark.cpu


class Array:
    """An array of the made-up library."""

    def __init__(self, array):
        self.array = np.asarray(array)

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)


class Library(arrays.Library):
    repeats = True

    def view(self, array):
        x = array.array
        return arrays.DeviceArray(array, self, x.ctypes.data, x.shape, x.strides, x.dtype, 0, 0)


class Call:
    """A call of the made-up target: what it was given, and whether it can be made again."""

    kernel, work = "made up", 0

    def __init__(self, made):
        self.made = made

    def __call__(self, *arguments):
        self.made.append("call")
        return "new"

    def repeat(self, *inputs, out):
        self.made.append("repeat")
        return None if not all(x.array.flags.c_contiguous for x in inputs) else "again"


@pytest.fixture
def made(monkeypatch):
    """What calls of the made-up target were asked for."""
    found = []
    kernels, known, library = targets.kernels, libraries.library_of_type, Library()
    room = SimpleNamespace(call=lambda *what: Call(found))
    monkeypatch.setattr(targets, "kernels", lambda target: room if target == "cuda" else kernels(target))
    for module in (libraries, calls, operands):
        monkeypatch.setattr(module, "library_of_type", lambda kind: library if kind is Array else known(kind))
    dml.cache_clear()
    yield found
    dml.cache_clear()


A, INDICES, U = np.zeros((4, 3), "f4"), np.zeros((2, 1), "i8"), np.zeros((2, 3), "f4")
FUNCTIONS = {
    "gather": lambda a, **kwargs: dml.gather(Array(a), Array(INDICES), **kwargs),
    "gather_elements": lambda a, **kwargs: dml.gather_elements(Array(a), Array(INDICES), **kwargs),
    "gather_nd": lambda a, **kwargs: dml.gather_nd(Array(a), Array(INDICES), **kwargs),
    "scatter_elements": lambda a, **kwargs: dml.scatter_elements(
        Array(a), Array(INDICES), Array(U[:, :1].copy()), **kwargs
    ),
    "scatter_nd": lambda a, **kwargs: dml.scatter_nd(Array(a), Array(INDICES), Array(U), **kwargs),
    "top_k": lambda a, **kwargs: dml.top_k(Array(a), 2, **kwargs),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_ask_the_last_call_of_these_sizes(name, made):
    function = FUNCTIONS[name]
    assert function(A) == "new"
    assert function(A, target="cuda") == "again"
    assert function(np.asfortranarray(A)) == "new"  # it was asked, and is not the same
    assert function(A, stream=SimpleNamespace(ptr=8192)) == "new"  # nobody is asked
    assert made == ["call", "repeat", "repeat", "call", "call"]
    with pytest.raises(ValueError, match="target: found 'gpu'"):
        function(A, target="gpu")
    with pytest.raises(TypeError, match=f"{name}: a: found an array on a CUDA device"):
        function(A, target="cpu")
    with pytest.raises(ValueError, match=f"{name}: stream: found 5, expected a CUDA stream or its address"):
        function(A, stream=5)
    with pytest.raises(TypeError, match=f"{name}: stream: found object, expected a CUDA stream or its address"):
        function(A, stream=object())
    del made[:]
    dml.cache_clear()
    assert function(A) == "new"
    assert made == ["call"]


def test_held_operators_ask_their_last_call(made):
    x, i, u = (dml.TensorDesc(array.dtype, array.shape) for array in (A, INDICES, U))
    k, j = dml.TensorDesc("float32", (4, 2)), dml.TensorDesc("uint32", (4, 2))
    held = {
        dml.GatherNDDesc(x, i, u, 2, 2): (A, INDICES),
        dml.ScatterNDDesc(x, i, u, x, 2, 2): (A, INDICES, U),
        dml.TopKDesc(x, k, j, axis=1, k=2): (A,),
    }
    for descriptor, (a, *more) in held.items():
        operator = dml.compile_operator(descriptor, target="cuda")
        del made[:]
        rest = [Array(array) for array in more]
        assert [operator(Array(array), *rest) for array in (a, a, np.asfortranarray(a))] == ["new", "again", "new"]
        assert operator(Array(a), *rest, stream=SimpleNamespace(ptr=8192)) == "new"
        assert made == ["call", "repeat", "repeat", "call", "call"]


def test_the_last_calls_are_bounded_and_hashed_with_care(made, monkeypatch):
    monkeypatch.setattr(calls, "MAX_CALLS", 2)
    for length in (1, 2, 3, 1):
        dml.gather(Array(A), Array(np.zeros(length, "i8")))
    assert made == ["call"] * 4  # the first one is forgotten
    assert len(calls._last_calls) == 2
    with pytest.raises(TypeError, match=r"gather: bounds: found \[1\], expected a single value"):
        dml.gather(Array(A), Array(INDICES), bounds=[1])


def capsule(api, name=b"dlpack_exchange_api"):
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(api), name, None)


def test_what_a_library_lets_others_ask():
    """Its functions of the major version that is known, by way of those of newer ones."""
    known = dlpack._Api(major=1, minor=3, describe=10, current_stream=11)
    newer = dlpack._Api(major=2, minor=0, before=ctypes.addressof(known), describe=20, current_stream=21)
    lonely = dlpack._Api(major=2, minor=0, describe=20, current_stream=21)
    silent = dlpack._Api(major=1, minor=3, current_stream=11)
    name = b"another"
    for value, expected in (
        (capsule(known), (10, 11)),
        (capsule(newer), (10, 11)),
        (capsule(lonely), None),
        (capsule(silent), None),
        (capsule(known, name), None),
        (12345, None),
        (None, None),
    ):
        kind = type("Kind", (), {"__dlpack_c_exchange_api__": value})
        assert Exchange.of(kind) == (expected and Exchange(kind, *expected))


def test_how_cupy_is_asked(monkeypatch):
    """About its stream, and whether an array is like another one: the type of its elements, its layout, its device."""
    streams = {0: SimpleNamespace(ptr=0), 1: SimpleNamespace(ptr=17)}
    made_up = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=streams.__getitem__))
    monkeypatch.setitem(sys.modules, "cupy", made_up)
    library = libraries._CuPy()

    def array(shape=(2, 3), strides=(12, 4), dtype="f4", device=1):
        memory = SimpleNamespace(ptr=4096, device_id=device)
        return SimpleNamespace(data=memory, shape=shape, strides=strides, dtype=np.dtype(dtype))

    view = library.view(array())
    assert (view.pointer, view.device, view.stream, view.shape, view.strides) == (4096, 1, 17, (2, 3), (12, 4))
    layout = view.shape, view.strides, view.dtype
    assert library.address(array(), layout, 1) == 4096
    for other in (array((3, 2), (8, 4)), array(strides=(4, 8)), array(dtype="i4"), array(dtype=">f4"), array(device=0)):
        assert library.address(other, layout, 1) is None


@pytest.mark.parametrize(
    ("address", "strides", "dtype", "aligned"),
    [
        (4096, (12, 4), "f4", True),
        (4098, (12, 4), "f4", False),
        (4098, (6, 2), "f2", True),
        (4097, (3, 1), "u1", True),
        (4096, (14, 4), "f4", False),
        (4096, (24, 8), "c8", True),
        (4100, (24, 8), "c8", False),
        (4096, (48, 16), "c16", True),
        (4104, (48, 16), "c16", False),
    ],
)
def test_elements_on_a_device_must_be_aligned(address, strides, dtype, aligned):
    """A kernel that loads one that is not ends the process's use of the device."""

    def make():
        return arrays.DeviceArray(None, None, address, (2, 3), strides, np.dtype(dtype), 0, 0)

    if aligned:
        assert make().pointer == address
    else:
        with pytest.raises(ValueError, match=rf"found the address {address:#x} and strides .*, expected multiples of"):
            make()


def test_strides_of_single_elements_may_be_anything():
    assert arrays.DeviceArray(None, None, 4096, (1, 3), (7, 4), np.dtype("f4"), 0, 0).strides == (7, 4)


class Face:
    """An array of no library."""

    __cuda_array_interface__ = {"shape": (3,), "typestr": ">f4", "data": (4096, False), "version": 3}


def test_a_foreign_byte_order_on_a_device_is_refused():
    with pytest.raises(TypeError, match="found dtype >f4, expected the byte order of the machine"):
        dml.gather(Face(), [0])
