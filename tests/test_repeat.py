"""Calls for arrays on a device that are made again, and what must not pass for the same call.

On a device with PyTorch's tensors, which machine code asks about, and with CuPy's, which Python does; in the simulator
with a library of either way and a driver that are made up here, so that the machine code runs everywhere.
"""

import ctypes
from itertools import count

import numpy as np
import pytest

import numba_dml as dml

from . import reference


@pytest.fixture(autouse=True)
def room(target):
    if target != "cuda":
        pytest.skip("about the target cuda")
    from numba_dml.cuda.driver import numba

    return numba


@pytest.fixture(autouse=True, params=["asked by machine code", "asked by Python"])
def by_python(request):
    return request.param == "asked by Python"


class Tensor:
    """An array of the made-up library."""

    def __init__(self, array):
        self.array = array
        self.requires_grad = False
        self.negated = False
        self.fails = False
        self.place = 0

    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)

    def is_neg(self):
        return self.negated

    def __getitem__(self, key):
        return Tensor(self.array[key])


class Subtensor(Tensor):
    pass


class MadeUp:
    """The library's functions, and the driver's, as addresses."""

    CODES = {"i": 0, "u": 1, "f": 2, "b": 6}

    def __init__(self):
        self.current = self.captures = 0
        self.kernels = {}
        self.keep = []

    def function(self, of, *takes):
        callback = ctypes.CFUNCTYPE(ctypes.c_int, *takes)(of)
        self.keep.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p).value

    def describe(self, tensor, out):
        from numba_dml._core.devices.dlpack import Tensor as Described

        if tensor.fails:
            return -1
        array = tensor.array
        words = ctypes.c_int64 * max(array.ndim, 1)
        tensor.sizes = words(*array.shape)
        tensor.strides = words(*(step // array.itemsize for step in array.strides))
        described = Described.from_address(out)
        described.data, described.byte_offset = array.ctypes.data, 0
        described.device_type, described.device = 2, tensor.place
        described.ndim, described.lanes = array.ndim, 1
        described.code, described.bits = self.CODES[array.dtype.kind], 8 * array.itemsize
        described.shape = ctypes.cast(tensor.sizes, ctypes.POINTER(ctypes.c_int64))
        described.strides = ctypes.cast(tensor.strides, ctypes.POINTER(ctypes.c_int64))
        return 0

    def current_stream(self, kind, device, out):
        out[0] = None
        return 0

    def device_of_thread(self, out):
        out[0] = self.current
        return 0

    def is_capturing(self, stream, out):
        out[0] = self.captures
        return 0

    def launch(self, config, handle, arguments, nothing):
        from numba_dml.cuda.driver import launch as driver_launch
        from numba_dml.cuda.replay import entry

        kernel = self.kernels[handle]
        blocks, _, _, threads, _, _, shared, stream, *_ = driver_launch._CONFIG.unpack(
            ctypes.string_at(config, 8 * entry.CONFIG_WORDS)
        )
        assert not stream
        pointers = (ctypes.c_void_p * kernel.count).from_address(arguments)
        words = [ctypes.c_int64.from_address(pointer).value for pointer in pointers]
        kernel(0, 0, blocks, *words, threads=threads, shared=shared)
        return 0


@pytest.fixture
def made_up(room, by_python, monkeypatch):
    """Let the package know the made-up library, and the driver."""
    from numba_dml._core import calls as core_calls
    from numba_dml._core import operands
    from numba_dml._core.devices import arrays as devices_arrays
    from numba_dml._core.devices import libraries
    from numba_dml._core.devices.dlpack import Exchange
    from numba_dml.cuda.driver import arrays as driver_arrays
    from numba_dml.cuda.driver import launch as driver_launch
    from numba_dml.cuda.replay import repeat

    fake, handles = MadeUp(), count(1)
    pointer, number = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)

    class Library(devices_arrays.Library):
        repeats = True
        exchange = Exchange(
            Tensor,
            fake.function(fake.describe, ctypes.py_object, pointer),
            fake.function(fake.current_stream, ctypes.c_int, ctypes.c_int, ctypes.POINTER(pointer)),
        )
        if by_python:
            exchange = None

        def address(self, tensor, layout, device):
            x = tensor.array
            more = tensor.fails or tensor.requires_grad or tensor.negated or tensor.place != device
            return None if more or (x.shape, x.strides, x.dtype) != layout else x.ctypes.data

        def stream(self, device):
            return 0

        def view(self, tensor):
            if tensor.requires_grad:
                raise TypeError("found a tensor that requires grad, expected one without")
            array = -tensor.array if tensor.negated else tensor.array
            owner = Tensor(array) if tensor.negated else tensor
            data = array.ctypes.data
            return devices_arrays.DeviceArray(
                owner, self, data, array.shape, array.strides, array.dtype, tensor.place, 0
            )

        def new(self, shape, dtype, device):
            return self.view(Tensor(np.empty(shape, dtype)))

        def assign(self, tensor, packed):
            tensor.array[...] = packed.array

    addresses = {
        "cuCtxGetDevice": fake.function(fake.device_of_thread, number),
        "cuStreamIsCapturing": fake.function(fake.is_capturing, pointer, number),
        "cuLaunchKernelEx": fake.function(fake.launch, pointer, pointer, pointer, pointer),
    }
    monkeypatch.setattr(repeat, "driver_address", addresses.__getitem__)

    def compile_(kernel, device):
        kernel.handles[device] = handle = next(handles)
        fake.kernels[handle] = kernel
        return handle

    monkeypatch.setattr(driver_launch.Kernel, "compile", compile_)
    monkeypatch.setattr(driver_launch.Kernel, "handle", compile_)
    library, known = Library(), libraries.library_of_type
    fake.library = library
    for module in (libraries, core_calls, operands, driver_arrays, repeat):
        monkeypatch.setattr(
            module, "library_of_type", lambda kind: library if issubclass(kind, Tensor) else known(kind)
        )
    dml.cache_clear()
    yield fake
    dml.cache_clear()  # calls know the functions by their addresses


@pytest.fixture
def tensor(room, by_python, request):
    """Return how to make a tensor of an array."""
    if room.SIMULATED:
        request.getfixturevalue("made_up")
        return lambda array: Tensor(array.copy())
    dml.cache_clear()
    if by_python:
        return pytest.importorskip("cupy").asarray
    torch = pytest.importorskip("torch")
    return lambda array: torch.as_tensor(array, device="cuda")


@pytest.fixture
def repeats(room, monkeypatch):
    """What calls that were made again came to: a stream, or None."""
    from numba_dml.cuda.replay import repeat

    monkeypatch.setattr(repeat, "FIRST_RECORDED", 2)
    found = []
    again = repeat.Repeat.__call__

    def noted(self, *arguments):
        found.append(again(self, *arguments))
        return found[-1]

    monkeypatch.setattr(repeat.Repeat, "__call__", noted)
    return found


def host(tensor):
    if isinstance(tensor, Tensor):
        return tensor.array
    return tensor.get() if hasattr(tensor, "get") else tensor.cpu().numpy()


def problem(name, rng):
    """Return the arguments of a function, for arrays that are new each time, and what it has to return."""
    a = rng.standard_normal((30, 4)).astype("f4")
    if name == "top_k":
        return (a,), (3,), {}, reference.top_k
    if name == "one_hot":
        hot = lambda i, depth: reference.one_hot(i, depth, np.float32(0), np.float32(1))  # noqa: E731
        return (rng.integers(-6, 6, (5, 7)),), (6,), {}, hot
    if name == "reverse_subsequences":
        return (a, rng.integers(0, 5, (30, 1))), (), {}, reference.reverse_subsequences
    i = rng.integers(-30, 30, (5, 1))
    if name.endswith("_elements"):
        i = rng.permuted(np.tile(np.arange(30), (4, 1)), axis=1).T[:5].copy()
    u = rng.standard_normal((5, 4)).astype("f4")
    inputs = (a, i, u) if name.startswith("scatter") else (a, i)
    return inputs, (), {"axis": 0} if name.endswith("_elements") else {}, getattr(reference, name)


def check(found, expected):
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert reference.same(host(one).astype(other.dtype), other)
    else:
        assert reference.same(host(found), expected)


CASES = {
    "gather": {},
    "gather_elements": {},
    "gather_nd": {"bounds": "raise"},
    "one_hot": {"bounds": "raise"},
    "reverse_subsequences": {"bounds": "clamp"},
    "scatter_elements": {"bounds": "deferred"},
    "scatter_nd": {},
    "top_k": {},
}


@pytest.mark.parametrize("parameters", [{}, {"axis": 0}, {"axis": 1, "ties": "last"}, {"axis": (0, 2)}], ids=str)
def test_argmax_is_made_again(tensor, repeats, parameters):
    rng = np.random.default_rng(0)
    for turn in range(7):
        a = rng.integers(0, 9, (30, 4, 3)).astype("f4")
        check(dml.argmax(tensor(a), **parameters), reference.argextreme(a, "argmax", **parameters))
        assert len(repeats) == max(turn - 1, 0)
    assert None not in repeats


@pytest.mark.parametrize("lines", [1, 3])
@pytest.mark.parametrize("parameters", [{}, {"reverse": True}, {"include_initial": True, "reverse": True}], ids=str)
def test_sums_are_made_again(tensor, repeats, lines, parameters):
    """In place, too, in several launches with scratch memory; from the last element on."""
    rng = np.random.default_rng(0)
    for turn in range(5):
        a = rng.standard_normal((lines, 600)).astype("f4")
        x = tensor(a)
        out = None if "include_initial" in parameters else x
        found = dml.cumulative_sum(x, axis=1, out=out, **parameters)
        check(found, reference.cumulative(a, False, 1, **parameters))
        assert len(repeats) == max(turn - 1, 0)
    assert None not in repeats


@pytest.mark.parametrize("parameters", [{}, {"size": 300, "bounds": "deferred"}, {"size": 150, "bounds": "drop"}])
@pytest.mark.parametrize("shape", [(700,), (40, 20)])
def test_coordinates_are_found_again(tensor, repeats, shape, parameters):
    """The number of rows differs from call to call; with a size, those that are not found are filled."""
    rng = np.random.default_rng(0)
    for turn in range(6):
        a = (rng.random(shape) < 0.04 * (turn + 1)).astype("f4")
        found = dml.nonzero_coordinates(tensor(a), **parameters)
        expected = np.argwhere(a)
        if parameters:
            assert int(np.asarray(host(found.count))) == len(expected)
            kept = np.full((parameters["size"], a.ndim), -1)
            rows = min(len(expected), len(kept))
            kept[:rows] = expected[:rows]
            check(found.coordinates, kept)
        else:
            check(found, expected)
        assert len(repeats) == max(turn - 1, 0)
    assert None not in repeats
    dml.check()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("has_out", [False, True])
def test_calls_are_made_again(tensor, repeats, name, has_out):
    rng = np.random.default_rng(0)
    for turn in range(7):
        inputs, more, parameters, expect = problem(name, rng)
        expected = expect(*inputs, *more, **parameters)
        kwargs = {**parameters, **CASES[name]}
        if has_out:
            out = tuple(tensor(np.zeros_like(x)) for x in (expected if name == "top_k" else (expected,)))
            kwargs["out"] = out if name == "top_k" else out[0]
        found = getattr(dml, name)(*map(tensor, inputs), *more, **kwargs)
        check(found, expected)
        if has_out and name != "top_k":
            assert found is kwargs["out"]
        assert len(repeats) == max(turn - 1, 0)
    assert None not in repeats
    dml.check()


@pytest.mark.parametrize("changes", [{}, {"reduction": "add"}, {"unique": True}, {"bounds": "drop"}])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("points", [5, 15])
def test_scatters_are_made_again(tensor, repeats, changes, in_place, points):
    """In place too, in several launches with scratch memory."""
    rng = np.random.default_rng(1)
    for _turn in range(5):
        a, u = rng.integers(0, 99, (20, 2)), rng.integers(0, 99, (points, 2))
        i = rng.permutation(20)[:points].reshape(-1, 1)
        kwargs = {key: value for key, value in changes.items() if key != "unique"}
        expected = reference.scatter_nd(a, i, u, **kwargs)
        x = tensor(a)
        found = dml.scatter_nd(x, tensor(i), tensor(u), out=x if in_place else None, **changes)
        check(found, expected)
    assert repeats == [repeats[0]] * 3
    assert repeats[0] is not None


def test_a_held_operator_is_called_again(tensor, repeats):
    rng = np.random.default_rng(2)
    x, k = dml.TensorDesc("float32", (6, 40)), dml.TensorDesc("float32", (6, 5))
    operator = dml.compile_operator(dml.TopKDesc(x, k, dml.TensorDesc("uint32", (6, 5)), axis=1, k=5), target="cuda")
    for _turn in range(5):
        a = rng.standard_normal((6, 40)).astype("f4")
        values, indices = operator(tensor(a))
        expected = reference.top_k(a, 5)
        assert reference.same(host(values), expected[0])
        np.testing.assert_array_equal(host(indices), expected[1])
    assert len(repeats) == 3
    assert None not in repeats


@pytest.fixture
def known(tensor, repeats):
    """Return a call that was made before, as often as it takes, and what it should return."""
    rng = np.random.default_rng(3)
    a, i = rng.standard_normal((9, 8)).astype("f4"), np.array([2, 0, 4])
    x, j = tensor(a), tensor(i)
    for _turn in range(4):
        dml.gather(x, j)
    assert len(repeats) == 2
    assert None not in repeats
    repeats.clear()
    return a, i, x, j


def test_other_layouts_are_other_calls(tensor, known, repeats):
    """The same sizes and data type; what is not like the recorded arrays must not pass for them."""
    a, i, x, j = known
    wide = np.stack([a, a + 1], axis=-1)
    for y in (
        tensor(wide)[..., 0],
        tensor(np.concatenate([a[:, :1], a], axis=1))[:, 1:],
        tensor(a.astype("i4")),
        tensor(a[:5]),
        tensor(a.reshape(9, 2, 4)),
    ):
        check(dml.gather(y, j[:2]), reference.gather(host(y), i[:2]))
        check(dml.gather(y, j[::2]), reference.gather(host(y), i[::2]))
        check(dml.gather(x, j), reference.gather(a, i))
    assert repeats.count(None) < len(repeats)


def test_another_alignment_is_another_call(tensor, known, repeats):
    """It is recorded by and by; after three that were not like the recorded one nobody asks any more until then."""
    a, i, x, j = known
    y = tensor(np.concatenate([a[0, :1], a.reshape(-1)]))[1:]
    y = Tensor(y.array.reshape(a.shape)) if isinstance(y, Tensor) else y.reshape(a.shape)
    for array in (y, y, y, x, x, x, x, x):
        check(dml.gather(array, j), reference.gather(a, i))
    assert [found is not None for found in repeats] == [False, False, True, False, False, False, True]


def test_outputs_that_overlap_are_copied(tensor, known, repeats):
    a, i, x, j = known
    out = tensor(np.zeros((3, 8), "f4"))
    check(dml.gather(x, j, out=out), reference.gather(a, i))
    found = dml.gather(x, j, out=x[1:4])
    check(found, reference.gather(a, i))
    assert repeats[0] is not None
    assert repeats[1:] == [None]


def test_errors_are_the_same(tensor, known, repeats):
    _, i, x, _ = known
    error = r"gather: indices\[1\] = 9 is out of range for axis 0 of size 9"
    for _turn in range(2):
        with pytest.raises(IndexError, match=error):
            dml.gather(x, tensor(np.array([1, 9, 2])))
    assert None not in repeats
    with pytest.raises(TypeError, match="gather: out: found dtype"):
        dml.gather(x, tensor(i), out=tensor(np.zeros((3, 8))))
    with pytest.raises(ValueError, match="gather: out: found shape"):
        dml.gather(x, tensor(i), out=tensor(np.zeros((3, 4), "f4")))
    with pytest.raises(TypeError, match="gather: out: found ndarray"):
        dml.gather(x, tensor(i), out=np.zeros((3, 8), "f4"))
    assert repeats[2:] == [None] * 3


def test_tensors_that_are_more_than_their_memory(tensor, known, repeats, by_python):
    a, i, x, j = known
    if by_python and not isinstance(x, Tensor):
        pytest.skip("about PyTorch's tensors")
    x.requires_grad = True
    with pytest.raises(TypeError, match="gather: a: found a tensor that requires grad"):
        dml.gather(x, j)
    x.requires_grad = False
    if isinstance(x, Tensor):
        x.negated = True
        check(dml.gather(x, j), -reference.gather(a, i))
    else:
        import torch

        y = torch.complex(torch.zeros_like(x), -x).conj().imag
        y = torch.as_strided(y, x.shape, x.stride()) if y.stride() == x.stride() else y
        assert y.is_neg()
        check(dml.gather(y, j), reference.gather(a, i))
    assert repeats == [None, None]


def lay_out(rng, shape, dtype, kind):
    """Return an array of a shape, transposed, with gaps, backwards, or not quite aligned."""
    full = shape[:-1] + (2 * shape[-1],) if kind in ("gaps", "backwards") else shape[::-1] if kind == "T" else shape
    size = int(np.prod(full)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 16 + (np.dtype(dtype).itemsize % 16 if kind == "unaligned" else 0)
    array = memory[start : start + size].view(dtype).reshape(full)
    return {"gaps": array[..., ::2], "backwards": array[..., ::-2], "T": array.T}.get(kind, array)


def random_call(rng):
    """Return a function, the shapes and types of its inputs, its other arguments, and the shapes of its outputs."""
    rows, columns, points = (
        int(rng.choice(sizes)) for sizes in ((1, 3, 8, 40, 130), (1, 2, 4, 16, 33), (1, 5, 13, 40))
    )
    name = str(rng.choice([name for name in CASES if name not in ("one_hot", "reverse_subsequences")]))
    axis = int(rng.integers(2))
    along = (points, columns) if axis == 0 else (rows, points)
    kwargs = {"axis": axis, "bounds": str(rng.choice(["raise", "drop", "deferred"]))}
    t = int(rng.integers(1, 3))
    if name == "top_k":
        k = int(rng.integers(1, (rows, columns)[axis] + 1))
        outputs = [(k, columns) if axis == 0 else (rows, k)] * 2
        return name, [(rows, columns)], (k,), {"axis": axis}, outputs
    if name.endswith("_nd"):
        del kwargs["axis"]
        inputs, outputs = [(rows, columns), (points, t), (points, columns)[: 3 - t]], [(points, columns)[: 3 - t]]
    else:
        inputs, outputs = [(rows, columns), (points,) if name == "gather" else along, along], [along]
    if not name.startswith("scatter"):
        return name, inputs[:2], (), kwargs, outputs
    kwargs["reduction"] = str(rng.choice(["none", "none", "add", "mul"]))
    kwargs["unique"] = kwargs["reduction"] == "none" and bool(rng.integers(2))
    return name, inputs, (), kwargs, [(rows, columns)]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_launched_again_is_what_would_be(request, room, monkeypatch, seed):
    """For arrays of all layouts, alignments and overlaps: the kernels do not run, their arguments are compared."""
    if not room.SIMULATED:
        pytest.skip("about the made-up library")
    from numba_dml._core import calls as core_calls
    from numba_dml._core.tensor import extent
    from numba_dml.cuda.driver import launch as driver_launch
    from numba_dml.cuda.primitives import bad_indices, fill
    from numba_dml.cuda.replay import repeat

    made_up, repeats = map(request.getfixturevalue, ("made_up", "repeats"))
    launched, memories = [], []

    def launch(kernel, device, stream, blocks, *args, threads=0, shared=0):
        if blocks:
            threads = threads or kernel.threads
            driver_launch.recorder.note(driver_launch.Step(kernel, blocks, threads, shared, args))
            launched.append((id(kernel), blocks, threads, shared, args))

    def copy(*what):
        launched.append(("copy", what))

    def memory(size, device):
        memories.append(type(made_up.library).memory(made_up.library, size, device))
        return memories[-1]

    monkeypatch.setattr(driver_launch.Kernel, "__call__", launch)
    monkeypatch.setattr(fill, "copy_bytes", copy)
    monkeypatch.setattr(made_up.library, "memory", memory)

    def seen(arrays):
        """Return what was launched, by where its addresses are; the numbers of launches and records vary."""
        spans = [(f"array {i}", x.ctypes.data, *extent(x.shape, x.strides)) for i, x in enumerate(arrays)]
        spans += [("scratch", m.pointer, 0, m.shape[0]) for m in memories]
        named = lambda n: next(((x, n - at) for x, at, low, high in spans if low <= n - at <= high), n)  # noqa: E731
        of_device = bad_indices.records_of(0)
        records = {record.address for record in (*of_device.free, of_device.deferred)}
        return [
            (*what, [("number",) if n >= 1 << 60 else ("record",) if n in records else named(n) for n in args])
            for *what, args in launched
        ]

    rng = np.random.default_rng(seed)
    same = 0
    for _case in range(120):
        name, shapes, more, kwargs, outputs = random_call(rng)
        dtype, index_type = str(rng.choice(["i1", "f2", "f4", "i8"])), str(rng.choice(["i8", "i4", "u1"]))
        kinds = [str(rng.choice(["", "", "", "T", "gaps", "backwards"])) for _ in shapes]
        for _turn in range(6):
            odd = rng.random() < 0.2
            arrays = [
                lay_out(rng, shape, index_type if i == 1 else dtype, "unaligned" if odd and not kinds[i] else kinds[i])
                for i, shape in enumerate(shapes)
            ]
            out = [lay_out(rng, s, "i8" if i else dtype, str(rng.choice(["", "T"]))) for i, s in enumerate(outputs)]
            where = rng.choice(["new", "out", "in", "over"])
            if where == "in" and outputs[0] == shapes[0] and name != "top_k":
                out[0] = arrays[0]
            elif where == "over" and outputs[0] == shapes[-1] and name != "top_k" and len(shapes) == 3:
                out[0] = arrays[2]
            tensors = [Tensor(x) for x in arrays]
            into = [next((t for t, x in zip(tensors, arrays, strict=True) if x is y), None) or Tensor(y) for y in out]
            if where != "new":
                kwargs["out"] = into[0] if len(into) == 1 else tuple(into)
            else:
                kwargs.pop("out", None)
            traces = []
            for first in (repeat.FIRST_RECORDED, 1 << 60):
                monkeypatch.setattr(repeat, "FIRST_RECORDED", first)
                launched.clear(), memories.clear(), repeats.clear()
                found = getattr(dml, name)(*tensors, *more, **kwargs)
                results = [x.array for x in (found if isinstance(found, tuple) else (found,))]
                traces.append(seen([*arrays, *results]))
                if not repeats or repeats[0] is None:
                    break
                known, core_calls._last_calls = core_calls._last_calls, {}
            if len(traces) == 2:
                monkeypatch.setattr(repeat, "FIRST_RECORDED", 2)
                core_calls._last_calls = known
                same += 1
                assert traces[0] == traces[1], (name, shapes, dtype, kinds, kwargs)
    assert same > 50


def test_deferred_errors_name_the_call(tensor, repeats):
    x, good, bad = (tensor(array) for array in (np.arange(12.0), np.array([3, 1]), np.array([4, 12])))
    for _turn in range(3):
        dml.gather(x, good, bounds="deferred")
    dml.check()
    check(dml.gather(x, bad, bounds="deferred"), np.array([4.0, 0.0]))
    assert len(repeats) == 2
    assert None not in repeats
    with pytest.raises(IndexError, match=r"gather: indices\[1\] = 12 is out of range for axis 0 of size 12"):
        dml.check()


def test_a_bad_index_that_comes_after_a_check_is_raised_by_the_next(tensor, monkeypatch):
    """The check may have waited for another stream."""
    from numba_dml.cuda.driver.launch import Kernel

    x, bad, start, held = tensor(np.arange(5.0)), tensor(np.array([1, 9])), Kernel.__call__, []
    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "__call__", lambda *args, **kwargs: held.append((args, kwargs)))
        found = dml.gather(x, bad, bounds="deferred")
    dml.check()
    for args, kwargs in held:
        start(*args, **kwargs)
    with pytest.raises(IndexError, match=r"gather: indices\[1\] = 9 is out of range for axis 0 of size 5"):
        dml.check()
    check(found, np.array([1.0, 0.0]))
    dml.gather(x, tensor(np.array([7])), bounds="deferred")
    with pytest.raises(IndexError, match=r"gather: indices\[0\] = 7 is out of range for axis 0 of size 5"):
        dml.check()


def test_what_the_device_is_asked(request, room, by_python):
    """Another device, a capture, and a library that fails: nothing is launched, and the call goes its way."""
    if not room.SIMULATED:
        pytest.skip("about the made-up library")
    made_up, known, repeats = map(request.getfixturevalue, ("made_up", "known", "repeats"))
    a, i, x, j = known
    made_up.current = 1
    check(dml.gather(x, j), reference.gather(a, i))
    made_up.current, made_up.captures = 0, 1
    check(dml.gather(x, j), reference.gather(a, i))
    made_up.captures = 0
    assert repeats == [None] * 2
    check(dml.gather(x, j), reference.gather(a, i))
    assert repeats[2] is not None
    x.fails = True
    check(dml.gather(x, j), reference.gather(a, i))
    x.fails = False
    y = Subtensor(a)
    check(dml.gather(y, j), reference.gather(a, i))
    assert [found is None for found in repeats[3:]] == [True, not by_python]
    with pytest.raises(TypeError, match="gather: indices: found ndarray in host memory"):
        dml.gather(x, i)
    assert repeats[5] is None


def test_streams_and_graphs(tensor, known, repeats, room, by_python):
    if room.SIMULATED or by_python:
        pytest.skip("needs a device, and PyTorch's tensors")
    import torch

    a, i, x, j = known
    out = torch.zeros(3, 8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        check(dml.gather(x, j, out=out), reference.gather(a, i))
        for _turn in range(3):
            dml.gather(x, j, out=out, bounds="deferred")
    assert set(repeats) == {0, stream.cuda_stream} - {0}
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dml.gather(x, j, out=out, bounds="deferred")
        with pytest.raises(RuntimeError, match="on a stream that is captured in a CUDA graph"):
            dml.gather(x, j, out=out)
    out.zero_()
    graph.replay()
    check(out, reference.gather(a, i))
    y = torch.func.vmap(lambda row: row * 2)(x)
    check(dml.gather(y, j), 2 * reference.gather(a, i))
    dml.check()


def test_streams_and_graphs_of_cupy(tensor, known, repeats, room, by_python):
    if room.SIMULATED or not by_python:
        pytest.skip("needs a device, and CuPy's arrays")
    import cupy

    a, i, x, j = known
    out = cupy.zeros((3, 8), "f4")
    cupy.cuda.get_current_stream().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _turn in range(3):
            check(dml.gather(x, j, out=out), reference.gather(a, i))
            dml.gather(x, j, out=out, bounds="deferred")
        dml.check()
        assert set(repeats) == {stream.ptr}
        stream.begin_capture()
        dml.gather(x, j, out=out, bounds="deferred")
        with pytest.raises(RuntimeError, match="on a stream that is captured in a CUDA graph"):
            dml.gather(x, j, out=out)
        graph = stream.end_capture()
        out[...] = 0
        graph.launch()
        check(out, reference.gather(a, i))
        dml.check()


def test_a_strided_input_is_copied_each_time(tensor, repeats):
    """By another call, whose plan may be gone."""
    rng = np.random.default_rng(5)
    for _turn in range(5):
        wide, i, u = rng.standard_normal((20, 6)), rng.permutation(20)[:5].reshape(-1, 1), rng.standard_normal((5, 3))
        found = dml.scatter_nd(tensor(wide)[:, ::2], tensor(i), tensor(u))
        check(found, reference.scatter_nd(wide[:, ::2], i, u))
    assert not repeats


def test_memory_comes_after_the_comparison(request, room, monkeypatch):
    """Another device may be the current one, whose memory is not asked for in vain."""
    if not room.SIMULATED:
        pytest.skip("about the made-up library")

    made_up, repeats = map(request.getfixturevalue, ("made_up", "repeats"))
    arrays = [Tensor(x) for x in (np.arange(60.0).reshape(20, 3), np.array([[3], [8]]), np.ones((2, 3)))]
    for _turn in range(4):
        dml.scatter_nd(*arrays)
    asked = []
    monkeypatch.setattr(made_up.library, "memory", lambda size, device: asked.append(size))
    made_up.current = 1
    with pytest.raises(AttributeError):  # the way without a record has no memory now
        dml.scatter_nd(*arrays)
    assert repeats[-1] is None
    assert len(asked) == 1


def test_a_plan_behind_an_array_is_none_of_it(request, room, monkeypatch):
    """Both come from the same memory, piece by piece, as CuPy's arrays and the package's plans do."""
    if not room.SIMULATED:
        pytest.skip("about the made-up library")
    from numba_dml.cuda.driver import memory as driver_memory

    made_up, repeats = map(request.getfixturevalue, ("made_up", "repeats"))
    memory, ends = np.zeros(1 << 18, np.uint8), [0]

    def place(array):
        ends.append(ends[-1] + -(-array.nbytes // 512) * 512)
        found = memory[ends[-2] : ends[-2] + array.nbytes].view(array.dtype).reshape(array.shape)
        found[...] = array
        return found

    def allocate(self, contents):
        self.place = place(contents)
        return self.place.ctypes.data

    monkeypatch.setattr(type(made_up.library), "new", lambda self, *what: self.view(Tensor(place(np.zeros(*what[:2])))))
    monkeypatch.setattr(driver_memory, "allocate", allocate)
    rng = np.random.default_rng(6)
    x, i = rng.standard_normal((40, 64)).astype("f4"), rng.integers(0, 32, (6, 1))
    few, u = x[:32, :4].copy(), np.ones((6, 4), "f4")
    calls = {
        "gather": ((x, i[:, 0]), reference.gather(x, i[:, 0])),
        "scatter_nd": ((few, i, u), reference.scatter_nd(few, i, u)),
        "top_k": ((x[:32, :8].copy(), 4), tuple(reference.top_k(x[:32, :8], 4))),
    }
    dml.gather(Tensor(place(x[:2])), Tensor(place(i[:1, 0] * 0)))  # the records of bad indices are made
    for name, (arguments, expected) in calls.items():
        repeats.clear()
        outputs = expected if isinstance(expected, tuple) else (expected,)
        for turn in range(5):
            if turn in (0, 3):  # the first call's plan comes behind its output, and the second call is recorded
                given = [Tensor(place(value)) if isinstance(value, np.ndarray) else value for value in arguments]
                out = tuple(Tensor(place(np.zeros_like(value))) for value in outputs)
            check(getattr(dml, name)(*given, out=out if len(out) > 1 else out[0]), expected)
        assert len(repeats) == 3, name
        assert None not in repeats, name


def test_a_call_that_fails_gives_its_record_back(request, room, monkeypatch):
    if not room.SIMULATED:
        pytest.skip("about the made-up library")
    from numba_dml.cuda.primitives import bad_indices

    made_up, repeats = map(request.getfixturevalue, ("made_up", "repeats"))
    arrays = [Tensor(x) for x in (np.arange(60.0).reshape(20, 3), np.array([[3], [8]]), np.ones((2, 3)))]
    for _turn in range(3):
        dml.scatter_nd(*arrays)
    free = len(bad_indices.records_of(0).free)

    def memory(size, device):
        raise MemoryError

    monkeypatch.setattr(made_up.library, "memory", memory)
    with pytest.raises(MemoryError):
        dml.scatter_nd(*arrays)
    assert repeats == [0]
    assert len(bad_indices.records_of(0).free) == free > 0


def test_tensors_of_the_cpu_and_bad_targets(tensor, known, repeats):
    """They are not calls for a device, although the library is the same."""
    torch = pytest.importorskip("torch")
    x, i = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 2])
    for _turn in range(3):
        assert dml.gather(x, i, target=None).tolist() == x[[0, 2]].tolist()
        assert dml.top_k(x, 1, target=None).indices.tolist() == [[3]] * 3
    a, j = known[2:]
    for target in ("gpu", 3):
        with pytest.raises(ValueError, match="target: found"):
            dml.gather(a, j, target=target)


def test_a_launch_is_as_large_as_the_driver_has_it():
    from numba_dml.cuda.driver import launch as driver_launch
    from numba_dml.cuda.replay import entry

    assert driver_launch._CONFIG.size == 8 * entry.CONFIG_WORDS


def test_the_memory_of_calls_is_bounded(tensor, monkeypatch):
    from numba_dml._core import calls as core_calls

    monkeypatch.setattr(core_calls, "MAX_CALLS", 3)
    x = tensor(np.arange(12.0))
    for length in range(1, 8):
        dml.gather(x, tensor(np.zeros(length, np.int64)))
        assert len(core_calls._last_calls) <= 3
    dml.cache_clear()
    assert not core_calls._last_calls
