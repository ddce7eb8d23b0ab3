"""From a lowering to a call, for arrays on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._core.descriptor import Descriptor
from ..._core.lowering import Move, Select
from ..._core.targets import family_calls
from ..._core.tensor import packed_strides
from ..driver.arrays import Span
from .gather import GatherCall
from .scatter import ScatterCall
from .top_k import TopKCall


def build(
    descriptor: Descriptor,
    layouts: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...],
    output_shapes: tuple[tuple[int, ...], ...],
    out_strides: tuple[int, ...] | None,
) -> Any:
    """Return the call for a descriptor and the layouts of its inputs."""
    tensors = [getattr(descriptor, name) for name in descriptor.input_fields]
    family = descriptor.spec.family
    if family not in ("gather", "scatter", "top_k"):
        return family_calls("cuda", descriptor.function, family).build(descriptor, layouts, output_shapes, out_strides)
    if family == "top_k":
        lowering = descriptor.lower([layouts[0][0]])
        assert isinstance(lowering, Select)
        return TopKCall(descriptor, lowering, output_shapes)
    spans = [
        Span.of(tensor.sizes, strides, tensor.itemsize) for tensor, (strides, _) in zip(tensors, layouts, strict=True)
    ]
    gathers = family == "gather"
    strides = layouts[0][0] if gathers else packed_strides(tensors[0].sizes, tensors[0].itemsize)
    lowering = descriptor.lower([strides])
    assert isinstance(lowering, Move)
    return (GatherCall if gathers else ScatterCall)(lowering, tensors[0].dtype, output_shapes[0], spans)
