"""DirectML's enumerations, with DirectML's numeric values (``directml.h``)."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class _Named:
    """An enumeration whose repr evaluates to the member, and which hashes as fast as its numbers."""

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"  # type: ignore[attr-defined]


class TensorDataType(_Named, IntEnum):
    """DML_TENSOR_DATA_TYPE. Values above 100 are this package's own and exist in native mode only."""

    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11
    BOOL = 101
    COMPLEX64 = 102
    COMPLEX128 = 103
    BFLOAT16 = 104


class TensorFlags(_Named, IntFlag):
    """DML_TENSOR_FLAGS. OWNED_BY_DML is accepted and has no effect here."""

    NONE = 0
    OWNED_BY_DML = 1


class AxisDirection(_Named, IntEnum):
    """DML_AXIS_DIRECTION.

    In top-k, INCREASING selects the smallest elements, DECREASING the largest. In argmin and argmax they select the
    first or the last of equal elements; cumulative sums and products start at the first or the last element.
    """

    INCREASING = 0
    DECREASING = 1


class OperatorType(_Named, IntEnum):
    """DML_OPERATOR_TYPE. SCATTER and SCATTER_ELEMENTS are one operator."""

    GATHER = 67
    TOP_K = 71
    MAX_UNPOOLING = 92
    SCATTER_ELEMENTS = 94
    SCATTER = 94
    ONE_HOT = 95
    CUMULATIVE_SUMMATION = 105
    REVERSE_SUBSEQUENCES = 106
    GATHER_ELEMENTS = 107
    GATHER_ND = 108
    SCATTER_ND = 109
    TOP_K1 = 112
    NONZERO_COORDINATES = 133
    ARGMIN = 137
    ARGMAX = 138
    GATHER_ND1 = 140
    CUMULATIVE_PRODUCT = 145


class FeatureLevel(_Named, IntEnum):
    """DML_FEATURE_LEVEL: 0xMm00 for level M_m."""

    FL_1_0 = 0x1000
    FL_2_0 = 0x2000
    FL_2_1 = 0x2100
    FL_3_0 = 0x3000
    FL_3_1 = 0x3100
    FL_4_0 = 0x4000
    FL_4_1 = 0x4100
    FL_5_0 = 0x5000
    FL_5_1 = 0x5100
    FL_5_2 = 0x5200
    FL_6_0 = 0x6000
    FL_6_1 = 0x6100
    FL_6_2 = 0x6200
    FL_6_3 = 0x6300
    FL_6_4 = 0x6400
