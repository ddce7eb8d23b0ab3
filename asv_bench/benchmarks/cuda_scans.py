"""The cases of the CUDA target for operators that are neither gather, scatter nor top-k; `cuda` runs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numba_dml as dml

from . import argextrema, common, cumulative_sum, max_unpool, nonzero_coordinates, one_hot, reverse_subsequences
from .cuda_data import generator, jax_call, library, positions, to_cupy, torch_dtype, values
from .reverse_subsequences import positions_of


@dataclass(frozen=True)
class CumulativeSumCase(cumulative_sum.Case):
    """Running sums; integers in int64. PyTorch and CuPy add in the type of the data, in no fixed order."""

    traffic = staticmethod(cumulative_sum.traffic)

    def arrays(self) -> tuple[Any, ...]:
        return (values(common.sizes(self.shape), self.dtype),)

    def out(self, a: Any) -> Any:
        kind = a.dtype if a.dtype.is_floating_point else library("torch").int64
        return a.new_empty(a.shape, dtype=kind)

    def numba_dml(self, a: Any) -> common.Call:
        return partial(dml.cumulative_sum, a, axis=self.axis, out=self.out(a))

    def torch(self, a: Any) -> common.Call:
        return partial(library("torch").cumsum, a, self.axis, out=self.out(a))

    def cupy(self, a: Any) -> common.Call:
        data, out = to_cupy(a, self.out(a))
        return partial(library("cupy").cumsum, data, self.axis, out=out)

    def jax(self, a: Any) -> common.Call:
        cumsum = library("jax").numpy.cumsum
        return jax_call(self, lambda a: cumsum(a, self.axis, dtype=None if a.dtype.kind == "f" else "int64"), a)


@dataclass(frozen=True)
class NonzeroCase(nonzero_coordinates.Case):
    """Where elements are not zero: every library waits for their count."""

    traffic = staticmethod(nonzero_coordinates.traffic)

    def arrays(self) -> tuple[Any, ...]:
        torch = library("torch")
        chosen = torch.rand(common.sizes(self.shape), device="cuda", generator=generator()) < self.share
        return (chosen.to(torch.bool if self.dtype == "bool" else torch_dtype(self.dtype)),)

    def numba_dml(self, a: Any) -> common.Call:
        return partial(dml.nonzero_coordinates, a)

    def torch(self, a: Any) -> common.Call:
        return partial(library("torch").nonzero, a)

    def cupy(self, a: Any) -> common.Call:
        return partial(library("cupy").argwhere, *to_cupy(a))

    def jax(self, a: Any) -> common.Call:
        jax = library("jax")
        library("torch").cuda.synchronize()
        return partial(jax.numpy.argwhere, jax.dlpack.from_dlpack(a))


@dataclass(frozen=True)
class ArgextremaCase(argextrema.Case):
    """The first of the largest elements; PyTorch returns any. Peers get several axes as one, copied together."""

    traffic = staticmethod(argextrema.traffic)

    def arrays(self) -> tuple[Any, ...]:
        return (values(common.sizes(self.shape), self.dtype),)

    def out(self, a: Any) -> Any:
        axes = self.axis if isinstance(self.axis, tuple) else (self.axis % a.ndim,)
        shape = [n for d, n in enumerate(a.shape) if d not in axes]
        return a.new_empty(shape, dtype=library("torch").int64)

    def numba_dml(self, a: Any) -> common.Call:
        return partial(dml.argmax, a, axis=self.axis, out=self.out(a))

    def torch(self, a: Any) -> common.Call:
        if isinstance(self.axis, int):
            return partial(library("torch").argmax, a, self.axis, out=self.out(a))
        first, last = self.axis
        kept = next(d for d in range(a.ndim) if d not in self.axis)
        return lambda: a.permute(kept, first, last).reshape(a.shape[kept], -1).argmax(-1)

    def cupy(self, a: Any) -> common.Call:
        (data,) = to_cupy(a)

        def call() -> Any:
            lines, axis = argextrema.in_one_axis(self, data)
            return lines.argmax(axis)

        return call

    def jax(self, a: Any) -> common.Call:
        argmax = library("jax").numpy.argmax
        return jax_call(self, lambda a: argmax(*argextrema.in_one_axis(self, a)), a)


@dataclass(frozen=True)
class OneHotCase(one_hot.Case):
    """Classes as rows. PyTorch has int64 and the last axis alone, and converts them."""

    traffic = staticmethod(one_hot.traffic)

    def arrays(self) -> tuple[Any, ...]:
        return (positions(self.depth, (common.size(self.count),), self.index_dtype),)

    def numba_dml(self, indices: Any) -> common.Call:
        shape = (len(indices), self.depth) if self.axis else (self.depth, len(indices))
        out = indices.new_empty(shape, dtype=torch_dtype(self.dtype))
        return partial(dml.one_hot, indices, self.depth, axis=self.axis, out=out, dtype=self.dtype, bounds="deferred")

    def torch(self, indices: Any) -> common.Call:
        kind, make = torch_dtype(self.dtype), library("torch").nn.functional.one_hot
        if self.axis:
            return lambda: make(indices.long(), self.depth).to(kind)
        return lambda: make(indices.long(), self.depth).T.to(kind).contiguous()

    def jax(self, indices: Any) -> common.Call:
        make = library("jax").nn.one_hot
        return jax_call(self, lambda i: make(i, self.depth, dtype=self.dtype, axis=self.axis), indices)


@dataclass(frozen=True)
class ReverseCase(reverse_subsequences.Case):
    """Sequences reversed up to their lengths; peers take elements by computed positions."""

    traffic = staticmethod(reverse_subsequences.traffic)

    def arrays(self) -> tuple[Any, ...]:
        a = values(common.sizes(self.shape), self.dtype)
        other = 0 if self.axis == 1 else 1
        return a, positions(a.shape[self.axis] + 1, tuple(n if d == other else 1 for d, n in enumerate(a.shape)))

    def numba_dml(self, a: Any, lengths: Any) -> common.Call:
        out = a.new_empty(a.shape)
        return partial(dml.reverse_subsequences, a, lengths, axis=self.axis, out=out, bounds="clamp")

    def torch(self, a: Any, lengths: Any) -> common.Call:
        torch = library("torch")
        if a.ndim > 2:
            rows = torch.arange(len(a), device="cuda")[:, None]
            return lambda: a[rows, positions_of(a, lengths, self.axis, torch, device="cuda").reshape(a.shape[:2])]
        return lambda: a.gather(self.axis, positions_of(a, lengths, self.axis, torch, device="cuda"))

    def jax(self, a: Any, lengths: Any) -> common.Call:
        jnp = library("jax").numpy
        return jax_call(
            self,
            lambda a, n: jnp.take_along_axis(a, positions_of(a, n, self.axis, jnp), self.axis, mode="clip"),
            a,
            lengths,
        )


@dataclass(frozen=True)
class MaxUnpoolCase(max_unpool.Case):
    """Pooled images. PyTorch counts within planes, and leaves open which of equal indices wins."""

    traffic = staticmethod(max_unpool.traffic)

    def arrays(self) -> tuple[Any, ...]:
        torch = library("torch")
        n, c, h, w = self.shape
        a = values((n, c, h // 2, w // 2), self.dtype)
        which = positions(4, tuple(a.shape))
        rows, columns = torch.arange(h // 2, device="cuda")[:, None], torch.arange(w // 2, device="cuda")
        i = (rows * 2 + which // 2) * w + columns * 2 + which % 2
        return a, i if self.planes else i + (torch.arange(n * c, device="cuda") * h * w).reshape(n, c, 1, 1)

    def numba_dml(self, a: Any, indices: Any) -> common.Call:
        given = {"batch_dims": 2 if self.planes else 0, "out": a.new_empty(self.shape), "bounds": "deferred"}
        return partial(dml.max_unpool, a, indices, self.shape, **given)

    def torch(self, a: Any, indices: Any) -> common.Call:
        if not self.planes:
            raise NotImplementedError("indices within a plane only")
        return partial(library("torch").nn.functional.max_unpool2d, a, indices, 2)


K, M = 1000, 1_000_000
#: The rows of the tables, and what is near to them, as in `cuda`.
CASES: dict[str, dict[str, Any]] = {
    "cumulative_sum": {
        **{f"100M {t}": CumulativeSumCase((100 * M,), dtype=t) for t in ("f4", "f2", "i8")},
        **{f"{n}M f4": CumulativeSumCase((n * M,)) for n in (1, 10)},
        "(64, 131072) f4": CumulativeSumCase((64, 131_072)),
        "(100k, 64) f4": CumulativeSumCase((100 * K, 64)),
        **{f"(4096, 4096) {t}": CumulativeSumCase((4096, 4096), dtype=t) for t in ("f4", "f8")},
        **{f"(4096, 4096) {t}, axis 0": CumulativeSumCase((4096, 4096), 0, t) for t in ("f4", "f8")},
    },
    "nonzero_coordinates": {
        f"{shape} {dtype}, {share:.0%}": NonzeroCase(shape, share, dtype)
        for shape in ((100 * M,), (10 * K, 10 * K))
        for dtype in ("bool", "f4")
        for share in (0.01, 0.1, 0.5)
    },
    "argextrema": {
        "100M f4": ArgextremaCase((100 * M,)),
        "(1M, 128) f4": ArgextremaCase((M, 128)),
        "(4096, 4096) f4": ArgextremaCase((4096, 4096)),
        **{f"(4096, 4096) {t}, axis 0": ArgextremaCase((4096, 4096), 0, t) for t in ("f4", "f2", "u1")},
        "(30, 256, 1000) f4, axis 1": ArgextremaCase((30, 256, 1000), 1),
        "(64, 128, 1000) f4, axes 0 and 2": ArgextremaCase((64, 128, 1000), (0, 2)),
    },
    "one_hot": {
        "1M of 10 classes, f4": OneHotCase(M, 10),
        "1M of 10 classes, f4, axis 0": OneHotCase(M, 10, axis=0),
        "4096 of 50257 classes, f2": OneHotCase(4096, 50_257, "f2"),
    },
    "reverse_subsequences": {
        **{f"{shape} f4": ReverseCase(shape) for shape in ((K, 10 * K), (32, 512, 256), (128, K, K))},
        "(1000, 10000) f4, axis 0": ReverseCase((K, 10 * K), axis=0),
    },
    "max_unpool": {
        "(32, 64, 112, 112) f4, by plane": MaxUnpoolCase((32, 64, 112, 112)),
        "(32, 64, 112, 112) f4, whole": MaxUnpoolCase((32, 64, 112, 112), planes=False),
    },
}
NEIGHBOURS: dict[str, dict[str, Any]] = {
    "cumulative_sum": {
        **{f"{n} elements {t}": CumulativeSumCase((n,), dtype=t) for n in (300 * K, 3 * M) for t in ("f4", "f8", "i4")},
        "17000003 f8": CumulativeSumCase((17_000_003,), dtype="f8"),
        **{f"(1M, {n}) f4": CumulativeSumCase((M, n)) for n in (3, 10, 300)},
        **{f"(10M, 4) {t}, axis 0": CumulativeSumCase((10 * M, 4), 0, t) for t in ("f4", "i4")},
        **{f"(1000, 1000) f4, axis {d}": CumulativeSumCase((K, K), d) for d in (0, 1)},
        **{f"(8, 1M) {t}": CumulativeSumCase((8, M), dtype=t) for t in ("f2", "f4", "f8")},
        "(256, 1000, 1000) f4, axis 1": CumulativeSumCase((256, K, K), 1),
    },
    "nonzero_coordinates": {
        **{f"(100, 1000, 1000) {t}, 10%": NonzeroCase((100, K, K), 0.1, t) for t in ("bool", "f4", "f8", "u1")},
        **{f"{shape} bool, 10%": NonzeroCase(shape, 0.1) for shape in ((10 * M, 3), (3, 10 * M), (M,))},
        "(20,) * 5 f4, 30%": NonzeroCase((20,) * 5, 0.3, "f4"),
        "(100,) * 4 bool, 50%": NonzeroCase((100,) * 4, 0.5),
    },
    "argextrema": {
        **{f"{n} elements {t}": ArgextremaCase((n,), dtype=t) for n in (300 * K, 10 * M) for t in ("f4", "i8", "u1")},
        **{f"(1M, {n}) f4": ArgextremaCase((M, n)) for n in (3, 8, 20)},
        **{f"(1M, {n}) f4, axis 0": ArgextremaCase((M, n), 0) for n in (3, 8, 20)},
        "(3, 3M) f4": ArgextremaCase((3, 3 * M)),
        "(3, 3M) f4, axis 0": ArgextremaCase((3, 3 * M), 0),
        "(64, 128, 1000) f4, axes 0 and 1": ArgextremaCase((64, 128, K), (0, 1)),
    },
    "one_hot": {
        "100k of 1000 classes, f4": OneHotCase(100 * K, K),
        "100k of 1000 classes, f4, axis 0": OneHotCase(100 * K, K, axis=0),
        "1M of 64 classes, u1, i4 indices": OneHotCase(M, 64, "u1", index_dtype="i4"),
        "300k of 100 classes, f8": OneHotCase(300 * K, 100, "f8"),
    },
    "reverse_subsequences": {
        "(100, 2000, 16) f8": ReverseCase((100, 2000, 16), "f8"),
        "(3, 3M) u1": ReverseCase((3, 3 * M), "u1"),
    },
    "max_unpool": {
        "(8, 64, 56, 56) f4, by plane": MaxUnpoolCase((8, 64, 56, 56)),
        "(16, 64, 112, 112) f8, whole": MaxUnpoolCase((16, 64, 112, 112), "f8", False),
    },
}
