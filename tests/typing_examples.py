"""What type checkers make of calls: checked by mypy and pyright (in `.ci/run`), not run by pytest."""

from typing import TYPE_CHECKING, Any, assert_type

import numpy as np
from numpy.typing import NDArray

import numba_dml as dml

if TYPE_CHECKING:
    # A library's array, as much of it as matters here.
    class Tensor:
        def __dlpack__(self, *, stream: int | None = None) -> Any: ...


def functions(a: NDArray[np.float32], i: NDArray[np.int64], u: NDArray[np.float32]) -> None:
    assert_type(dml.gather(a, i, axis=1), NDArray[np.float32])
    assert_type(dml.gather_elements(a, [[0]], bounds="clamp"), NDArray[np.float32])
    assert_type(dml.gather_nd(a, i, batch_dims=1), NDArray[np.float32])
    assert_type(dml.scatter_elements(a, i, u, reduction="add"), NDArray[np.float32])
    assert_type(dml.scatter_nd(a, i, u, unique=True), NDArray[np.float32])
    assert_type(dml.gather([1, 2, 3], [0]), NDArray[Any])


def results(a: NDArray[np.float16], out: NDArray[np.float16]) -> None:
    assert_type(dml.gather(a, [0], out=out), NDArray[np.float16])
    found = dml.top_k(a, 3)
    assert_type(found.values, NDArray[np.float16])
    assert_type(found.indices, NDArray[np.intp])
    values, indices = dml.top_k(a, 3, index_dtype=np.uint32, mode="smallest", nan="largest")
    assert_type(values, NDArray[np.float16])
    assert_type(indices, NDArray[np.uint32])
    assert_type(dml.top_k([3, 1], 1).values, NDArray[Any])
    assert_type(dml.top_k(a, 3, out=(out, out)).indices, NDArray[np.float16])


def sums(a: NDArray[np.float16], i: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    assert_type(dml.cumulative_sum(a, axis=0, exclusive=True), NDArray[np.float16])
    assert_type(dml.cumulative_sum(i, dtype=np.uint8), NDArray[np.uint8])
    assert_type(dml.cumulative_prod([1, 2]), NDArray[Any])
    assert_type(dml.cumulative_prod(i, out=out), NDArray[np.int64])
    assert_type(dml.cumulative_prod(i, dtype="uint8"), NDArray[Any])


def coordinates(a: NDArray[np.float16], out: NDArray[np.int64]) -> None:
    assert_type(dml.nonzero_coordinates(a), NDArray[Any])
    assert_type(dml.nonzero_coordinates([1, 0], index_dtype="uint8"), NDArray[Any])
    assert_type(dml.nonzero_coordinates(a, size=3).count, NDArray[Any])
    assert_type(dml.nonzero_coordinates(a, out=(out, out)), dml.Nonzero[NDArray[np.int64]])


def values_at(i: NDArray[np.int32], out: NDArray[np.int8], t: "Tensor") -> None:
    assert_type(dml.one_hot(i, 4, dtype=np.uint8), NDArray[np.uint8])
    assert_type(dml.one_hot([1, 2], 4, on_value=True), NDArray[Any])
    assert_type(dml.one_hot(i, 4, axis=0, out=out), NDArray[np.int8])
    assert_type(dml.one_hot(t, 4), "Tensor")


def reversed_lines(a: NDArray[np.int32], out: NDArray[np.int8], t: "Tensor") -> None:
    assert_type(dml.reverse_subsequences(a, [[1]], axis=0), NDArray[np.int32])
    assert_type(dml.reverse_subsequences([1, 2], [2], bounds="clamp"), NDArray[Any])
    assert_type(dml.reverse_subsequences(out, [2], out=out), NDArray[np.int8])
    assert_type(dml.reverse_subsequences(t, t), "Tensor")


def unpooled(a: NDArray[np.int32], out: NDArray[np.int8], t: "Tensor") -> None:
    assert_type(dml.max_unpool(a, a, (4, 4), batch_dims=2), NDArray[np.int32])
    assert_type(dml.max_unpool([1, 2], [2, 0], [5], bounds="drop"), NDArray[Any])
    assert_type(dml.max_unpool(out, [2], (3,), out=out), NDArray[np.int8])
    assert_type(dml.max_unpool(t, t, (3,)), "Tensor")


def places(a: NDArray[np.float16], out: NDArray[np.uint8]) -> None:
    assert_type(dml.argmax(a, axis=(0, 1), ties="last"), NDArray[np.intp])
    assert_type(dml.argmin(a, index_dtype=np.uint8), NDArray[np.uint8])
    assert_type(dml.argmin([1, 2]), NDArray[Any])
    assert_type(dml.argmin(a, index_dtype="uint8"), NDArray[Any])
    assert_type(dml.argmax(a, out=out), NDArray[np.uint8])


def devices(a: "Tensor", i: "Tensor", u: "Tensor") -> None:
    assert_type(dml.gather(a, i), "Tensor")
    assert_type(dml.scatter_nd(a, i, u, bounds="deferred"), "Tensor")
    values, indices = dml.top_k(a, 8, index_dtype="int64", stream=3)
    assert_type(values, "Tensor")
    assert_type(indices, "Tensor")


def operators(a: NDArray[np.float32], i: NDArray[np.int64]) -> None:
    x, indices = dml.TensorDesc("float32", (3,)), dml.TensorDesc("int64", (3,))
    operator = dml.compile_operator(dml.GatherDesc(x, indices, x, axis=0, index_dimensions=1))
    assert_type(operator(a, i), NDArray[np.float32])
    assert_type(operator(a, i, out=a), NDArray[np.float32])
    scatter = dml.compile_operator(dml.ScatterDesc(x, indices, x, x, 0, bounds="drop"), target="cpu")
    assert_type(scatter(a, i, a), NDArray[np.float32])
    best = dml.compile_operator(dml.TopKDesc(x, x, indices, 0, 3), feature_level=dml.FeatureLevel.FL_5_0)
    assert_type(best(a).values, NDArray[np.float32])
    assert_type(best(a, out=(a, i)), dml.TopK[NDArray[np.float32], NDArray[np.int64]])
    assert_type(dml.compile_operator(dml.Descriptor.from_dict({})), Any)


@dml.config(quiet=True)
def defaults(a: NDArray[np.float32]) -> NDArray[np.float32]:
    with dml.config(target="cpu", bounds="clamp", threads=np.int64(2)), dml.config(bounds=None, threads=None):
        return dml.gather(a, [0])


def mistakes(a: NDArray[np.float32]) -> None:
    dml.gather(a, [0], bounds="wrap")  # type: ignore[call-overload]  # pyright: ignore
    dml.top_k(a, k=3)  # type: ignore[call-overload]  # pyright: ignore
    dml.top_k(a, 3, mode="max")  # type: ignore[call-overload]  # pyright: ignore
    dml.scatter_nd(a, [[0]])  # type: ignore[call-overload]  # pyright: ignore
    dml.scatter_nd(a, [[0]], a[:1], bounds="clamp")  # type: ignore[call-overload]  # pyright: ignore
    dml.scatter_elements(a, [0], a[:1], bounds="clamp")  # type: ignore[call-overload]  # pyright: ignore
    dml.config(bounds="nope")  # type: ignore[arg-type]  # pyright: ignore
    dml.config(target="gpu")  # type: ignore[arg-type]  # pyright: ignore
    x, i = dml.TensorDesc("float32", (3,)), dml.TensorDesc("int64", (3,))
    dml.compile_operator(dml.TopKDesc(x, x, i, 0, 3), target="gpu")  # type: ignore[call-overload]  # pyright: ignore
    dml.compile_operator(dml.TopKDesc(x, x, i, 0, 3))(a, a)  # type: ignore[call-overload]  # pyright: ignore
    dml.compile_operator(dml.GatherDesc(x, i, x, 0, 1))(a)  # type: ignore[call-overload]  # pyright: ignore
