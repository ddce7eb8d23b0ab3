"""Descriptors: enumerations, tensor descriptors, the feature tables, and what strict and native validation refuse."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re

import numpy as np
import pytest

import numba_dml as dml
from numba_dml import (
    AxisDirection,
    DescriptorError,
    FeatureLevel,
    OperatorType,
    TensorDataType,
    TensorDesc,
    TensorFlags,
)

pytestmark = pytest.mark.cpu

# ------------------------------------------------------------------------------------------------------- enumerations

ENUMS = [
    (
        TensorDataType,
        {
            "FLOAT32": 1,
            "FLOAT16": 2,
            "UINT32": 3,
            "UINT16": 4,
            "UINT8": 5,
            "INT32": 6,
            "INT16": 7,
            "INT8": 8,
            "FLOAT64": 9,
            "UINT64": 10,
            "INT64": 11,
        },
    ),
    (TensorFlags, {"NONE": 0, "OWNED_BY_DML": 1}),
    (AxisDirection, {"INCREASING": 0, "DECREASING": 1}),
    (
        OperatorType,
        {
            "GATHER": 67,
            "TOP_K": 71,
            "SCATTER": 94,
            "SCATTER_ELEMENTS": 94,
            "MAX_UNPOOLING": 92,
            "ONE_HOT": 95,
            "CUMULATIVE_SUMMATION": 105,
            "REVERSE_SUBSEQUENCES": 106,
            "GATHER_ELEMENTS": 107,
            "GATHER_ND": 108,
            "SCATTER_ND": 109,
            "TOP_K1": 112,
            "NONZERO_COORDINATES": 133,
            "ARGMIN": 137,
            "ARGMAX": 138,
            "GATHER_ND1": 140,
            "CUMULATIVE_PRODUCT": 145,
        },
    ),
    (
        FeatureLevel,
        {
            "FL_1_0": 0x1000,
            "FL_2_0": 0x2000,
            "FL_2_1": 0x2100,
            "FL_3_0": 0x3000,
            "FL_3_1": 0x3100,
            "FL_4_0": 0x4000,
            "FL_4_1": 0x4100,
            "FL_5_0": 0x5000,
            "FL_5_1": 0x5100,
            "FL_5_2": 0x5200,
            "FL_6_0": 0x6000,
            "FL_6_1": 0x6100,
            "FL_6_2": 0x6200,
            "FL_6_3": 0x6300,
            "FL_6_4": 0x6400,
        },
    ),
]
PACKAGE_ONLY = ["BOOL", "COMPLEX64", "COMPLEX128", "BFLOAT16"]


@pytest.mark.parametrize(("enum", "values"), ENUMS, ids=lambda x: getattr(x, "__name__", ""))
def test_enum_values(enum, values):
    found = {name: int(member) for name, member in enum.__members__.items() if name not in PACKAGE_ONLY}
    assert found == values


def test_package_only_data_types_stand_above_100():
    assert all(TensorDataType[name] > 100 for name in PACKAGE_ONLY)


@pytest.mark.parametrize(
    ("kind", "operator_type"),
    [
        (dml.GatherDesc, 67),
        (dml.TopKDesc, 71),
        (dml.ScatterElementsDesc, 94),
        (dml.GatherElementsDesc, 107),
        (dml.GatherNDDesc, 108),
        (dml.ScatterNDDesc, 109),
        (dml.TopK1Desc, 112),
        (dml.GatherND1Desc, 140),
    ],
)
def test_operator_type_of_descriptor(kind, operator_type):
    assert kind.operator_type == operator_type


def test_scatter_is_scatter_elements():
    assert dml.ScatterDesc is dml.ScatterElementsDesc


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (dml.GatherDesc, "input_tensor indices_tensor output_tensor axis index_dimensions"),
        (dml.GatherElementsDesc, "input_tensor indices_tensor output_tensor axis"),
        (
            dml.GatherNDDesc,
            "input_tensor indices_tensor output_tensor input_dimension_count indices_dimension_count",
        ),
        (
            dml.GatherND1Desc,
            "input_tensor indices_tensor output_tensor "
            "input_dimension_count indices_dimension_count batch_dimension_count",
        ),
        (dml.ScatterElementsDesc, "input_tensor indices_tensor updates_tensor output_tensor axis"),
        (
            dml.ScatterNDDesc,
            "input_tensor indices_tensor updates_tensor output_tensor input_dimension_count indices_dimension_count",
        ),
        (dml.TopKDesc, "input_tensor output_value_tensor output_index_tensor axis k"),
        (dml.TopK1Desc, "input_tensor output_value_tensor output_index_tensor axis k axis_direction"),
    ],
)
def test_fields_stand_in_the_order_of_the_struct(kind, fields):
    """The struct's fields are positional and required; the package's own come after them, by keyword, with defaults."""
    own = [f for f in dataclasses.fields(kind) if not f.kw_only]
    assert [f.name for f in own] == fields.split()
    assert all(f.default is dataclasses.MISSING for f in own)
    assert all(f.default is not dataclasses.MISSING for f in dataclasses.fields(kind) if f.kw_only)


# --------------------------------------------------------------------------------------------------- refusals, in words


def refusal(call, field, found, expected):
    """Check that a call is refused, that the error says what was found and expected, and that its text does too."""
    with pytest.raises(DescriptorError) as caught:
        call()
    error = caught.value
    assert error.field == field
    assert found in str(error.found)
    assert expected in str(error.expected)
    for part in (error.subject, error.field, str(error.found), str(error.expected), error.rule):
        assert part in str(error)
    return error


def test_descriptor_error_is_a_value_error_that_can_be_copied():
    error = refusal(lambda: TensorDesc("float32", (2, -1)), "sizes", "(2, -1)", "at least 0")
    assert isinstance(error, ValueError)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is DescriptorError
        assert str(twin) == str(error)
        assert (twin.field, twin.found, twin.expected) == (error.field, error.found, error.expected)


# ----------------------------------------------------------------------------------------------------- data types

# member, number, dtype, name, bytes
DATA_TYPES = [
    (TensorDataType.FLOAT32, 1, np.float32, "float32", 4),
    (TensorDataType.FLOAT16, 2, np.float16, "float16", 2),
    (TensorDataType.UINT32, 3, np.uint32, "uint32", 4),
    (TensorDataType.UINT16, 4, np.uint16, "uint16", 2),
    (TensorDataType.UINT8, 5, np.uint8, "uint8", 1),
    (TensorDataType.INT32, 6, np.int32, "int32", 4),
    (TensorDataType.INT16, 7, np.int16, "int16", 2),
    (TensorDataType.INT8, 8, np.int8, "int8", 1),
    (TensorDataType.FLOAT64, 9, np.float64, "float64", 8),
    (TensorDataType.UINT64, 10, np.uint64, "uint64", 8),
    (TensorDataType.INT64, 11, np.int64, "int64", 8),
    (TensorDataType.BOOL, TensorDataType.BOOL.value, np.bool_, "bool", 1),
    (TensorDataType.COMPLEX64, TensorDataType.COMPLEX64.value, np.complex64, "complex64", 8),
    (TensorDataType.COMPLEX128, TensorDataType.COMPLEX128.value, np.complex128, "complex128", 16),
]


@pytest.mark.parametrize(("member", "number", "scalar", "name", "size"), DATA_TYPES, ids=lambda x: str(x))
def test_data_type_spellings(member, number, scalar, name, size):
    dtype = np.dtype(scalar)
    spellings = [member, number, np.int64(number), scalar, dtype, name, name.upper(), dtype.str, dtype.newbyteorder()]
    for spelling in spellings:
        tensor = TensorDesc(spelling, (3,))
        assert tensor.data_type is member
        assert tensor.dtype == dtype
        assert tensor.dtype.isnative
        assert tensor.itemsize == size


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 arrays come from the package ml_dtypes")
    for spelling in (TensorDataType.BFLOAT16, int(TensorDataType.BFLOAT16), "bfloat16", np.dtype(ml_dtypes.bfloat16)):
        tensor = TensorDesc(spelling, (3,))
        assert tensor.data_type is TensorDataType.BFLOAT16
        assert tensor.dtype == np.dtype(ml_dtypes.bfloat16)
        assert tensor.minimum_size_in_bytes == 8


@pytest.mark.parametrize("number", [12, 13])
def test_four_bit_types_are_refused_with_their_reason(number):
    error = refusal(lambda: TensorDesc(number, (2,)), "data_type", str(number), "8 bits")
    assert "UINT4" in error.rule
    assert "INT4" in error.rule


@pytest.mark.parametrize("value", [0, -1, 14, 100, 1000, np.int32(14)])
def test_unknown_numbers_are_refused(value):
    refusal(lambda: TensorDesc(value, (2,)), "data_type", str(value), "TensorDataType")


@pytest.mark.parametrize(
    "value", ["float33", "uint4", "", object(), True, 1.0, "O", "U", "V0", "bad,,", {"names": ["a"]}]
)
def test_things_that_are_no_data_type_are_refused(value):
    with pytest.raises(DescriptorError) as caught:
        TensorDesc(value, (2,))
    assert caught.value.field == "data_type"


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no strings of any length")
def test_strings_of_any_length_are_refused():
    kind = np.dtypes.StringDType()
    refusal(lambda: TensorDesc(kind, (2,)), "data_type", "StringDType()", "fixed-size")
    text, numbers = np.array(["a", "bb"], kind), np.zeros(2)
    for call, argument in (
        (lambda: dml.gather(text, [0]), "a"),
        (lambda: dml.top_k(text, 1), "a"),
        (lambda: dml.one_hot([0], 2, dtype=kind), "dtype"),
        (lambda: dml.scatter_nd(numbers, [[0], [1]], text), "updates"),
        (lambda: dml.compile_operator(build("TOP_K"))(np.array([["a"] * 3] * 2, kind)), "a"),
    ):
        with pytest.raises((TypeError, ValueError), match=rf"{argument}: found "):
            call()


@pytest.mark.parametrize("value", ["float33", 14, None])
def test_the_error_lists_the_data_types(value):
    with pytest.raises(DescriptorError) as caught:
        TensorDesc(value, (2,))
    assert str(caught.value) == (
        f"TensorDesc.data_type: found {value!r}, expected a TensorDataType (float32, float16, uint32, uint16, uint8, "
        "int32, int16, int8, float64, uint64, int64, bool, complex64, complex128, bfloat16) or a fixed-size NumPy dtype"
    )


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
def test_elements_of_a_byte_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="they come from the package ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    tensor = TensorDesc(dtype, (2, 3))
    assert (tensor.dtype, tensor.itemsize, tensor.minimum_size_in_bytes) == (dtype, 1, 8)
    assert repr(tensor) == f"TensorDesc('ml_dtypes.{name}', (2, 3))"
    assert TensorDesc.from_dict(json.loads(json.dumps(tensor.to_dict()))) == tensor == eval(repr(tensor))
    assert hash(tensor) == hash(TensorDesc(dtype.newbyteorder(), (2, 3)))
    assert tensor != TensorDesc("V1", (2, 3))
    i = TensorDesc("uint32", (2, 3))
    desc = dml.GatherElementsDesc(tensor, i, tensor, axis=0)
    with pytest.raises(DescriptorError, match=rf"input_tensor: found ML_DTYPES\.{name.upper()}, expected one of"):
        desc.validate(FeatureLevel.FL_6_4)
    a = np.arange(6, dtype=np.uint8).view(dtype).reshape(2, 3)
    found = dml.compile_operator(desc)(a, np.ones((2, 3), np.uint32))
    assert found.dtype == dtype
    assert found.view(np.uint8).tolist() == [[3, 4, 5]] * 2


@pytest.mark.parametrize("value", ["ml_dtypes.float33", "ml_dtypes.finfo", "ml_dtypes."])
def test_other_names_of_ml_dtypes_are_refused(value):
    refusal(lambda: TensorDesc(value, (2,)), "data_type", value, "TensorDataType")


# --------------------------------------------------------------------------------------------------- sizes in bytes


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "expected"),
    [
        ("float32", (1, 1, 3, 5), None, 60),
        ("float16", (3,), None, 8),
        ("uint8", (2, 3), (5, 1), 8),
        ("uint8", (2, 3), (0, 1), 4),
        ("float16", (2, 3), (5, 1), 16),
        # 32-bit arithmetic would wrap: 2^34 bytes twice, and 2^63.
        ("float32", (65536, 65536), None, 17_179_869_184),
        ("float32", (2,), (4_294_967_295,), 17_179_869_184),
        ("uint64", (2**30, 2**30), None, 9_223_372_036_854_775_808),
        ("complex128", (3,), None, 48),
        ("bfloat16", (3,), None, 8),
        ("bool", (1,), None, 4),
    ],
)
def test_minimum_size_in_bytes(data_type, sizes, strides, expected):
    tensor = TensorDesc(data_type, sizes, strides)
    assert tensor.minimum_size_in_bytes == expected
    for total in (expected, expected + 4):
        assert TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=total) != tensor
    refusal(
        lambda: TensorDesc(data_type, sizes, strides, total_tensor_size_in_bytes=expected - 1),
        "total_tensor_size_in_bytes",
        str(expected - 1),
        str(expected),
    )


def test_counts():
    tensor = TensorDesc("int16", [2, 3, 4])
    assert tensor.sizes == (2, 3, 4)
    assert tensor.dimension_count == 3
    assert tensor.element_count == 24


@pytest.mark.parametrize(
    ("data_type", "accepted", "refused"),
    [
        ("uint8", [0, 1, 2, 4, 256], [-1, 3, 6]),
        ("float16", [0, 2, 4, 8], [1, 3, 6, -2]),
        ("float32", [0, 4, 8, 4096], [1, 2, 5, 12, -4]),
        ("float64", [0, 8, 16], [1, 2, 4, 12, 24]),
        ("complex128", [0, 16, 32], [8, 24]),
    ],
)
def test_guaranteed_base_offset_alignment(data_type, accepted, refused):
    for alignment in accepted:
        tensor = TensorDesc(data_type, (2,), guaranteed_base_offset_alignment=alignment)
        assert tensor.guaranteed_base_offset_alignment == alignment
    for alignment in refused:
        refusal(
            lambda alignment=alignment: TensorDesc(data_type, (2,), guaranteed_base_offset_alignment=alignment),
            "guaranteed_base_offset_alignment",
            str(alignment),
            "power of two",
        )


@pytest.mark.parametrize("field", ["total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"])
@pytest.mark.parametrize("value", [64.0, 64.5, "64"])
def test_numbers_of_bytes_are_integers(field, value):
    with pytest.raises(DescriptorError) as caught:
        TensorDesc("float32", (2,), **{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TensorDesc("f4", (True, 3)), "TensorDesc.sizes: found (True, 3), expected integers"),
        (lambda: TensorDesc("f4", (np.True_,)), f"TensorDesc.sizes: found {(np.True_,)!r}, expected integers"),
        (lambda: TensorDesc("f4", (2, 3), (3, True)), "TensorDesc.strides: found (3, True), expected integers"),
        (
            lambda: TensorDesc("u1", (1,), total_tensor_size_in_bytes=True),
            "TensorDesc.total_tensor_size_in_bytes: found (True,), expected integers",
        ),
        (
            lambda: TensorDesc("u1", (1,), guaranteed_base_offset_alignment=True),
            "TensorDesc.guaranteed_base_offset_alignment: found (True,), expected integers",
        ),
        (lambda: TensorDesc("u1", (1,), flags=True), "TensorDesc.flags: found True, expected a TensorFlags value"),
        (
            lambda: dml.TopK1Desc(*[TensorDesc("u4", (1,))] * 3, 0, 1, True),
            "TopK1Desc.axis_direction: found True, expected INCREASING (0) or DECREASING (1)",
        ),
        (lambda: dml.TopKDesc(*[TensorDesc("u4", (1,))] * 3, 0, True), "TopKDesc.k: found True, expected an integer"),
        (
            lambda: dml.TopKDesc(*[TensorDesc("u4", (1,))] * 3, 0, 1, sorted="no"),
            "TopKDesc.sorted: found 'no', expected True or False",
        ),
    ],
)
def test_bools_are_no_integers_and_words_no_flags(call, message):
    with pytest.raises(DescriptorError) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("flags", [0, 1, TensorFlags.NONE, TensorFlags.OWNED_BY_DML])
def test_flags(flags):
    tensor = TensorDesc("float32", (2,), flags=flags)
    assert tensor.flags == flags
    assert isinstance(tensor.flags, TensorFlags)


@pytest.mark.parametrize("flags", [2, 3, -1, "OWNED", True])
def test_unknown_flags_are_refused(flags):
    refusal(lambda: TensorDesc("float32", (2,), flags=flags), "flags", str(flags), "TensorFlags")


@pytest.mark.parametrize(
    ("sizes", "strides", "field"),
    [
        ((2, -1), None, "sizes"),
        ((2.0, 3), None, "sizes"),
        (3, None, "sizes"),
        (None, None, "sizes"),
        ((2, 3), (1,), "strides"),
        ((2, 3), (3, 1, 1), "strides"),
        ((2, 3), (1.5, 1), "strides"),
        ((2, 3), 1, "strides"),
    ],
)
def test_sizes_and_strides_that_make_no_tensor(sizes, strides, field):
    with pytest.raises(DescriptorError) as caught:
        TensorDesc("float32", sizes, strides)
    assert caught.value.field == field


# ----------------------------------------------------------------------------------------------------- feature tables

TF = frozenset({"FLOAT32", "FLOAT16"})
T8 = TF | {"INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}
T10 = T8 | {"INT64", "UINT64"}
T11 = T10 | {"FLOAT64"}
I4 = frozenset({"INT64", "INT32", "UINT64", "UINT32"})
U32 = frozenset({"UINT32"})
U2 = frozenset({"UINT64", "UINT32"})
ANY = frozenset(range(1, 9))
FOUR = frozenset({4})

# The specification's table: level, data, indices, dimensions. A row holds up to the level of the row above it.
TABLE = {
    "GATHER": [
        ("4_1", T11, I4, ANY),
        ("3_0", T8, I4, ANY),
        ("2_1", T8, U32, FOUR),
        ("1_0", TF, U32, FOUR),
    ],
    "GATHER_ELEMENTS": [
        ("4_1", T11, I4, ANY),
        ("3_0", T8, I4, ANY),
        ("2_1", T8, U32, FOUR),
    ],
    "GATHER_ND": [
        ("4_1", T11, I4, ANY),
        ("3_0", T8, I4, ANY),
        ("2_1", T8, U32, FOUR),
    ],
    "GATHER_ND1": [
        ("4_1", T11, I4, ANY),
        ("3_0", T8, I4, ANY),
    ],
    "SCATTER": [
        ("4_1", T11, I4, ANY),
        ("3_0", T8, I4, ANY),
        ("2_1", T8, U32, FOUR),
        ("2_0", TF, U32, FOUR),
    ],
    "SCATTER_ND": [
        ("4_1", T11, I4, ANY),
        ("3_0", T8, I4, ANY),
        ("2_1", T8, U32, FOUR),
    ],
    "TOP_K1": [
        ("5_0", T10, U2, ANY),
        ("3_1", T8, U32, ANY),
        ("2_1", T8, U32, FOUR),
    ],
    "TOP_K": [
        ("5_0", T10, U2, ANY),
        ("3_1", T8, U32, ANY),
        ("2_1", T8, U32, FOUR),
        ("2_0", TF, U32, FOUR),
    ],
}
LEVELS = ["1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"]

# What the table makes of every level, one letter each: - none, a TF U32 4, b T8 U32 4, c T8 I4 1-8, d T11 I4 1-8,
# e T8 U32 1-8, f T10 U32/U64 1-8. Written by hand, to catch a wrong reading of "up to the next row".
MATRIX = {
    #                    1   2   3   4   5   6
    "GATHER": "          a   ab  cc  cd  ddd ddddd",
    "GATHER_ELEMENTS": " -   -b  cc  cd  ddd ddddd",
    "GATHER_ND": "       -   -b  cc  cd  ddd ddddd",
    "GATHER_ND1": "      -   --  cc  cd  ddd ddddd",
    "SCATTER": "         -   ab  cc  cd  ddd ddddd",
    "SCATTER_ND": "      -   -b  cc  cd  ddd ddddd",
    "TOP_K1": "          -   -b  be  ee  fff fffff",
    "TOP_K": "           -   ab  be  ee  fff fffff",
}
LETTERS = {
    (TF, U32, FOUR): "a",
    (T8, U32, FOUR): "b",
    (T8, I4, ANY): "c",
    (T11, I4, ANY): "d",
    (T8, U32, ANY): "e",
    (T10, U2, ANY): "f",
}


def row_of(operator, level):
    """Return the (data, indices, dimensions) that hold at a level, None below the first."""
    for first, *row in TABLE[operator]:
        if first <= level:
            return tuple(row)
    return None


ROWS = [
    pytest.param(operator, f"FL_{level}", *row_of(operator, level), id=f"{operator}-{level}")
    for operator in TABLE
    for level in LEVELS
    if row_of(operator, level)
]
BEFORE = [
    pytest.param(operator, f"FL_{level}", f"FL_{TABLE[operator][-1][0]}", id=f"{operator}-{level}")
    for operator in TABLE
    for level in LEVELS
    if not row_of(operator, level)
]
INDEX_FIELD = {
    operator: "output_index_tensor" if operator.startswith("TOP_K") else "indices_tensor" for operator in TABLE
}
DIRECTML = sorted(T11)
INTEGERS = sorted(name for name in T11 if "INT" in name)


def build(operator, data="FLOAT32", index="UINT32", rank=4, size=3):
    """Make a small descriptor that every rule but the table's accepts."""

    def tensor(kind, last):
        return TensorDesc(TensorDataType[kind], (1,) * (rank - 1) + (last,))

    axis = rank - 1
    if operator == "GATHER":
        return dml.GatherDesc(tensor(data, size), tensor(index, 2), tensor(data, 2), axis, 1)
    if operator == "GATHER_ELEMENTS":
        return dml.GatherElementsDesc(tensor(data, size), tensor(index, 2), tensor(data, 2), axis)
    if operator == "GATHER_ND":
        return dml.GatherNDDesc(tensor(data, size), tensor(index, 1), tensor(data, 1), 1, 1)
    if operator == "GATHER_ND1":
        return dml.GatherND1Desc(tensor(data, size), tensor(index, 1), tensor(data, 1), 1, 1, 0)
    if operator == "SCATTER":
        return dml.ScatterDesc(tensor(data, size), tensor(index, 2), tensor(data, 2), tensor(data, size), axis)
    if operator == "SCATTER_ND":
        return dml.ScatterNDDesc(tensor(data, size), tensor(index, 1), tensor(data, 1), tensor(data, size), 1, 1)
    if operator == "TOP_K":
        return dml.TopKDesc(tensor(data, size), tensor(data, 2), tensor(index, 2), axis, 2)
    return dml.TopK1Desc(tensor(data, size), tensor(data, 2), tensor(index, 2), axis, 2, AxisDirection.INCREASING)


def some(types):
    """One member of a set, the same one every time."""
    return min(types)


def named(text):
    """The data types that a text names."""
    return set(re.findall(r"\b(?:FLOAT|UINT|INT)\d+\b", str(text)))


def test_the_table_reads_as_the_matrix():
    assert [level.name for level in FeatureLevel] == [f"FL_{level}" for level in LEVELS]
    read = {operator: "".join(LETTERS.get(row_of(operator, level), "-") for level in LEVELS) for operator in TABLE}
    assert read == {operator: line.replace(" ", "") for operator, line in MATRIX.items()}


@pytest.mark.parametrize(("operator", "level", "data", "indices", "dimensions"), ROWS)
def test_data_types_of_a_level(operator, level, data, indices, dimensions):
    index, rank = some(indices), some(dimensions)
    for name in DIRECTML + ["BOOL", "BFLOAT16"]:
        descriptor = build(operator, name, index, rank)
        if name in data:
            descriptor.validate(FeatureLevel[level])
        else:
            error = refusal(lambda d=descriptor: d.validate(FeatureLevel[level]), "input_tensor", name, "one of")
            assert named(error.expected) == data
            assert error.rule == level


@pytest.mark.parametrize(("operator", "level", "data", "indices", "dimensions"), ROWS)
def test_index_types_of_a_level(operator, level, data, indices, dimensions):
    kind, rank = some(data), some(dimensions)
    for name in INTEGERS:
        descriptor = build(operator, kind, name, rank)
        if name in indices:
            descriptor.validate(FeatureLevel[level])
        else:
            error = refusal(lambda d=descriptor: d.validate(FeatureLevel[level]), INDEX_FIELD[operator], name, "one of")
            assert named(error.expected) == indices
            assert error.rule == level


@pytest.mark.parametrize(("operator", "level", "data", "indices", "dimensions"), ROWS)
def test_dimension_counts_of_a_level(operator, level, data, indices, dimensions):
    wanted = "4 dimensions" if dimensions == FOUR else "1 to 8 dimensions"
    for rank in range(1, 11):
        descriptor = build(operator, some(data), some(indices), rank)
        if rank in dimensions:
            descriptor.validate(FeatureLevel[level])
        else:
            error = refusal(
                lambda d=descriptor: d.validate(FeatureLevel[level]), "input_tensor", f"{rank} dimensions", wanted
            )
            assert error.rule == level


@pytest.mark.parametrize(("operator", "level", "first"), BEFORE)
def test_levels_before_the_first(operator, level, first):
    descriptor = build(operator)
    refusal(lambda: descriptor.validate(FeatureLevel[level]), "feature_level", level, first)
    refusal(lambda: dml.compile_operator(descriptor, feature_level=FeatureLevel[level]), "feature_level", level, first)


@pytest.mark.parametrize("operator", TABLE)
def test_index_types_that_are_no_integers(operator):
    for name in ("FLOAT32", "FLOAT16", "FLOAT64", "BOOL", "COMPLEX64", "BFLOAT16"):
        refusal(lambda name=name: build(operator, index=name), INDEX_FIELD[operator], name.lower(), "integer")


@pytest.mark.parametrize("operator", [name for name in TABLE if not name.startswith("TOP_K")])
@pytest.mark.parametrize("data", ["COMPLEX64", "COMPLEX128"])
def test_complex_is_native_only(operator, data):
    refusal(lambda: build(operator, data).validate(FeatureLevel.FL_6_4), "input_tensor", data, "one of")


@pytest.mark.parametrize("operator", ["TOP_K", "TOP_K1"])
@pytest.mark.parametrize("data", ["COMPLEX64", "COMPLEX128"])
def test_complex_has_no_order(operator, data):
    refusal(lambda: build(operator, data), "input_tensor", data.lower(), "order")


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "S5", [("x", "i4"), ("y", "f8")]])
def test_types_without_a_number_are_native_only(dtype):
    data = TensorDesc(np.dtype(dtype), (3,))
    descriptor = dml.GatherElementsDesc(data, TensorDesc("int64", (3,)), data, 0)
    refusal(lambda: descriptor.validate(FeatureLevel.FL_6_4), "input_tensor", str(np.dtype(dtype)).upper(), "one of")


def test_feature_levels_as_numbers():
    descriptor = build("GATHER", "INT8", "INT32", rank=2)
    descriptor.validate(0x3000)
    refusal(lambda: descriptor.validate(0x2100), "input_tensor", "2 dimensions", "4 dimensions")
    assert dml.compile_operator(descriptor, feature_level=0x3000).feature_level is FeatureLevel.FL_3_0
    for number in (0, 0x1100, 0x6500):
        with pytest.raises(ValueError, match="FeatureLevel"):
            descriptor.validate(number)
        with pytest.raises(ValueError, match="FeatureLevel"):
            dml.compile_operator(descriptor, feature_level=number)


def test_compile_operator_validates_strictly_only_with_a_level():
    descriptor = build("GATHER", "BOOL")
    refusal(lambda: dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_6_4), "input_tensor", "BOOL", "one")
    assert dml.compile_operator(descriptor).feature_level is None


# --------------------------------------------------------------------------------------- sizes and layouts, strictly

STRICT = [(operator, level) for operator in TABLE for level in ("FL_3_1", "FL_6_4")]
strictly = pytest.mark.parametrize(("operator", "level"), STRICT)


def relayout(descriptor, field, sizes, strides):
    return dataclasses.replace(descriptor, **{field: TensorDesc(getattr(descriptor, field).data_type, sizes, strides)})


def tensor_fields(descriptor):
    return [f.name for f in dataclasses.fields(descriptor) if isinstance(getattr(descriptor, f.name), TensorDesc)]


@strictly
def test_strides(operator, level):
    """Inputs may broadcast, everything may be padded; outputs must not overlap and strict strides are unsigned."""
    descriptor = build(operator, rank=2)
    for field in tensor_fields(descriptor):
        sizes = getattr(descriptor, field).sizes
        is_output = field.startswith("output")
        for strides in ((100, 1), (7, 2), (0, 1)):  # the 0 stands on a size of 1
            relayout(descriptor, field, sizes, strides).validate(FeatureLevel[level])
        negative = relayout(descriptor, field, sizes, (10, -1))
        refusal(lambda d=negative: d.validate(FeatureLevel[level]), field, "(10, -1)", "unsigned")
        wide = relayout(descriptor, field, sizes, (2**32, 1))
        refusal(lambda d=wide: d.validate(FeatureLevel[level]), field, str(2**32), "32-bit")
        relayout(descriptor, field, sizes, (2**32 - 1, 1)).validate(FeatureLevel[level])
        if sizes[-1] == 1:
            continue
        if is_output:
            refusal(
                lambda f=field, s=sizes: relayout(descriptor, f, s, (1, 0)), field, "strides (1, 0)", "do not overlap"
            )
        else:
            relayout(descriptor, field, sizes, (1, 0)).validate(FeatureLevel[level])


# An output of sizes (2, 3): its strides, and whether two elements meet.
@pytest.mark.parametrize(
    ("strides", "overlap"),
    [
        ((3, 1), False),
        ((1, 2), False),
        ((5, 1), False),
        ((10, 3), False),
        ((3, 2), False),  # 0 2 4 and 3 5 7: interleaved
        ((-3, 1), False),
        ((3, -1), False),
        ((0, 1), True),
        ((3, 0), True),
        ((0, 0), True),
        ((2, 1), True),
        ((1, 1), True),
        ((2, 2), True),
        ((4, 2), True),
        ((-2, 1), True),
    ],
)
def test_outputs_that_overlap(strides, overlap):
    data, output = TensorDesc("float32", (2, 3)), TensorDesc("float32", (2, 3), strides)
    indices = TensorDesc("uint32", (2, 3))
    makers = [
        ("output_tensor", lambda: dml.GatherElementsDesc(data, indices, output, 0)),
        ("output_tensor", lambda: dml.ScatterElementsDesc(data, indices, data, output, 0)),
        ("output_value_tensor", lambda: dml.TopKDesc(data, output, indices, 1, 3)),
        ("output_index_tensor", lambda: dml.TopKDesc(data, data, TensorDesc("uint32", (2, 3), strides), 1, 3)),
    ]
    for field, make in makers:
        if overlap:
            refusal(make, field, str(strides), "do not overlap")
        else:
            assert getattr(make(), field).strides == strides


def test_the_same_layout_is_fine_as_an_input():
    for strides in ((0, 1), (3, 0), (0, 0), (2, 1)):
        data = TensorDesc("float32", (2, 3), strides)
        indices = TensorDesc("uint32", (2, 3), strides)
        descriptor = dml.ScatterElementsDesc(data, indices, data, TensorDesc("float32", (2, 3)), 0)
        descriptor.validate(FeatureLevel.FL_6_4)


ZERO_SIZED = [
    ("input_tensor", lambda z, d, i: dml.GatherElementsDesc(z, TensorDesc("uint32", (0, 3)), z, 0)),
    ("indices_tensor", lambda z, d, i: dml.GatherElementsDesc(d, TensorDesc("uint32", (0, 3)), z, 0)),
    ("indices_tensor", lambda z, d, i: dml.ScatterElementsDesc(d, TensorDesc("uint32", (0, 3)), z, d, 0)),
    ("input_tensor", lambda z, d, i: dml.GatherDesc(z, i, TensorDesc("float32", (0, 1)), 1, 1)),
]


@pytest.mark.parametrize(("field", "make"), ZERO_SIZED)
def test_zero_sizes_are_native_only(field, make):
    descriptor = make(TensorDesc("float32", (0, 3)), TensorDesc("float32", (2, 3)), TensorDesc("uint32", (1, 1)))
    assert 0 in getattr(descriptor, field).sizes
    refusal(lambda: descriptor.validate(FeatureLevel.FL_6_4), field, "0", "at least 1")
    dml.compile_operator(descriptor)


@pytest.mark.parametrize("operator", TABLE)
def test_element_limit(operator):
    build(operator, size=2**32 - 1).validate(FeatureLevel.FL_6_4)
    large = build(operator, size=2**32)
    refusal(lambda: large.validate(FeatureLevel.FL_6_4), "input_tensor", str(2**32), str(2**32 - 1))


def test_element_limit_holds_for_the_product_of_the_sizes():
    for sizes, fits in (((65535, 65537), True), ((65536, 65536), False), ((2**20, 2**20), False)):
        data, one = TensorDesc("uint8", sizes), TensorDesc("uint8", (1, sizes[1]))
        descriptor = dml.GatherDesc(data, TensorDesc("uint32", (1, 1)), one, 0, 1)
        if fits:
            descriptor.validate(FeatureLevel.FL_6_4)
        else:
            count = str(sizes[0] * sizes[1])
            refusal(lambda d=descriptor: d.validate(FeatureLevel.FL_6_4), "input_tensor", count, str(2**32 - 1))


@pytest.mark.parametrize("operator", TABLE)
def test_all_tensors_have_one_dimension_count(operator):
    descriptor = build(operator, rank=3)
    for field in tensor_fields(descriptor)[1:]:
        sizes = (1,) + getattr(descriptor, field).sizes
        refusal(lambda f=field, s=sizes: relayout(descriptor, f, s, None), field, "4 dimensions", "3")


@pytest.mark.parametrize("operator", TABLE)
def test_data_tensors_have_one_type(operator):
    descriptor = build(operator)
    for field in tensor_fields(descriptor)[1:]:
        if field == INDEX_FIELD[operator]:
            continue
        tensor = TensorDesc("int32", getattr(descriptor, field).sizes)
        refusal(lambda f=field, t=tensor: dataclasses.replace(descriptor, **{f: t}), field, "int32", "float32")


@pytest.mark.parametrize("operator", TABLE)
def test_tensors_are_descriptors(operator):
    descriptor = build(operator)
    for field in tensor_fields(descriptor):
        for other in (None, (1, 3), np.zeros((1, 1, 1, 3), "float32")):
            refusal(
                lambda f=field, o=other: dataclasses.replace(descriptor, **{f: o}),
                field,
                type(other).__name__,
                "TensorDesc",
            )


# -------------------------------------------------------------------------------------------- parameters of operators


def top_k_desc(kind, size, k, nan="last"):
    tensors = (
        TensorDesc("float32", (2, size)),
        TensorDesc("float32", (2, max(k, 0))),
        TensorDesc("uint32", (2, max(k, 0))),
    )
    direction = () if kind is dml.TopKDesc else (AxisDirection.DECREASING,)
    return kind(*tensors, 1, k, *direction, nan=nan)


@pytest.mark.parametrize("kind", [dml.TopKDesc, dml.TopK1Desc])
def test_k(kind):
    for k in (1, 2, 3):  # equality with the size is accepted
        top_k_desc(kind, 3, k).validate(FeatureLevel.FL_6_4)
    for k in (4, -1):
        refusal(lambda k=k: top_k_desc(kind, 3, k), "k", str(k), "0 to 3")
    none = top_k_desc(kind, 3, 0)
    dml.compile_operator(none)
    refusal(lambda: none.validate(FeatureLevel.FL_6_4), "k", "0", "1 to 3")
    for k in (True, 2.0, "2", None):
        with pytest.raises(DescriptorError) as caught:
            dataclasses.replace(top_k_desc(kind, 3, 2), k=k)
        assert caught.value.field == "k"


def test_axis_direction():
    for value in (1, "DECREASING", AxisDirection.DECREASING):
        descriptor = dataclasses.replace(build("TOP_K1"), axis_direction=value)
        assert descriptor.axis_direction is AxisDirection.DECREASING
    for value in (2, -1, "largest", None):
        refusal(
            lambda v=value: dataclasses.replace(build("TOP_K1"), axis_direction=v),
            "axis_direction",
            repr(value),
            "INCREASING (0) or DECREASING (1)",
        )


def test_top_k_index_type_holds_every_position():
    def make(index, size):
        tensors = TensorDesc("float32", (size,)), TensorDesc("float32", (1,)), TensorDesc(index, (1,))
        return dml.TopKDesc(*tensors, 0, 1)

    for index, size in (("int8", 128), ("uint8", 256), ("int16", 32768)):
        assert make(index, size).input_tensor.sizes == (size,)
        refusal(lambda i=index, s=size: make(i, s + 1), "output_index_tensor", index, str(size))


def element_descriptors(input, indices, axis):
    data, places = TensorDesc("float32", input), TensorDesc("uint32", indices)
    values = TensorDesc("float32", indices)
    return [
        lambda: dml.GatherElementsDesc(data, places, values, axis),
        lambda: dml.ScatterElementsDesc(data, places, values, data, axis),
    ]


@pytest.mark.parametrize(
    ("input", "indices", "axis", "dimension"),
    [
        ((3, 4), (2, 3), 0, 1),
        ((3, 4), (1, 9), 1, 0),
        ((3, 4, 5), (3, 1, 5), 2, 1),
    ],
)
def test_indices_smaller_than_the_input_off_the_axis(input, indices, axis, dimension):
    for make in element_descriptors(input, indices, axis):
        descriptor = make()
        dml.compile_operator(descriptor)
        for level in (FeatureLevel.FL_3_0, FeatureLevel.FL_6_4):
            found, expected = str(indices[dimension]), str(input[dimension])
            refusal(lambda d=descriptor, v=level: d.validate(v), "indices_tensor", found, expected)


@pytest.mark.parametrize(("input", "indices", "axis"), [((3, 4), (7, 4), 0), ((3, 4), (3, 1), 1), ((1, 4), (5, 4), 0)])
def test_indices_of_any_size_on_the_axis(input, indices, axis):
    for make in element_descriptors(input, indices, axis):
        make().validate(FeatureLevel.FL_3_0)


def test_indices_larger_than_the_input_off_the_axis():
    for make in element_descriptors((3, 4), (3, 5), 0):
        refusal(make, "indices_tensor", "5", "4")


def test_an_input_size_of_1_is_broadcast_by_a_native_gather_only():
    gather, scatter = element_descriptors((1, 4), (3, 4), 1)
    descriptor = gather()
    dml.compile_operator(descriptor)
    refusal(lambda: descriptor.validate(FeatureLevel.FL_6_4), "indices_tensor", "3", "1")
    refusal(scatter, "indices_tensor", "3", "1")


@pytest.mark.parametrize("operator", ["SCATTER", "SCATTER_ND"])
@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_reductions_are_native_only(operator, reduction):
    descriptor = dataclasses.replace(build(operator), reduction=reduction)
    refusal(lambda: descriptor.validate(FeatureLevel.FL_6_4), "reduction", reduction, "none")
    refusal(lambda: dml.compile_operator(descriptor, feature_level=FeatureLevel.FL_6_4), "reduction", reduction, "none")


@pytest.mark.parametrize("operator", ["SCATTER", "SCATTER_ND"])
def test_unknown_reductions(operator):
    for value in ("sum", "", None, 1):
        refusal(
            lambda v=value: dataclasses.replace(build(operator), reduction=v),
            "reduction",
            repr(value),
            "'none', 'add', 'mul', 'min', 'max'",
        )
    for value in ("min", "max"):
        refusal(
            lambda v=value: dataclasses.replace(build(operator, "COMPLEX64"), reduction=v), "reduction", value, "add"
        )


@pytest.mark.parametrize("operator", TABLE)
def test_unknown_words(operator):
    field, words = ("nan", "'last', 'largest'") if operator.startswith("TOP_K") else ("bounds", "'raise'")
    for value in ("wrap", None):
        refusal(lambda v=value: dataclasses.replace(build(operator), **{field: v}), field, repr(value), words)


@pytest.mark.parametrize("operator", ["SCATTER", "SCATTER_ND"])
def test_scatters_do_not_clamp(operator):
    refusal(lambda: dataclasses.replace(build(operator), bounds="clamp"), "bounds", "clamp", "drop")


def test_batch_dimensions_of_a_scatter_are_native_only():
    data = TensorDesc("float32", (2, 3))
    tensors = data, TensorDesc("uint32", (2, 1)), TensorDesc("float32", (1, 2)), data
    descriptor = dml.ScatterNDDesc(*tensors, 2, 2, batch_dimension_count=1)
    dml.compile_operator(descriptor)
    refusal(lambda: descriptor.validate(FeatureLevel.FL_6_4), "batch_dimension_count", "1", "0")


PARAMETERS = [
    ("GATHER", "axis", 0, 3),
    ("GATHER", "index_dimensions", 0, 4),
    ("GATHER_ELEMENTS", "axis", 0, 3),
    ("GATHER_ND", "input_dimension_count", 1, 4),
    ("GATHER_ND", "indices_dimension_count", 1, 4),
    ("GATHER_ND1", "input_dimension_count", 1, 4),
    ("GATHER_ND1", "indices_dimension_count", 1, 4),
    ("GATHER_ND1", "batch_dimension_count", 0, 0),
    ("SCATTER", "axis", 0, 3),
    ("SCATTER_ND", "input_dimension_count", 1, 4),
    ("SCATTER_ND", "indices_dimension_count", 1, 4),
    ("TOP_K", "axis", 0, 3),
    ("TOP_K1", "axis", 0, 3),
]


@pytest.mark.parametrize(("operator", "field", "low", "high"), PARAMETERS)
def test_ranges_of_parameters(operator, field, low, high):
    for value in (low - 1, high + 1):
        refusal(
            lambda v=value: dataclasses.replace(build(operator), **{field: v}), field, str(value), f"{low} to {high}"
        )
    for value in (1.0, "1", None, True):
        refusal(lambda v=value: dataclasses.replace(build(operator), **{field: v}), field, repr(value), "integer")


# ---------------------------------------------------------------------- dicts, JSON, equality, repr, immutability

TENSORS = [
    TensorDesc("float32", (2, 3)),
    TensorDesc("uint8", (2, 3), (5, 1)),
    TensorDesc("uint8", (2, 3), (0, 1), total_tensor_size_in_bytes=64),
    TensorDesc("float64", (2, 0, 3)),
    TensorDesc("int64", ()),
    TensorDesc("float16", (4,), (-1,)),
    TensorDesc("int32", (1,), flags=TensorFlags.OWNED_BY_DML, guaranteed_base_offset_alignment=16),
    TensorDesc("datetime64[ns]", (2,)),
    TensorDesc("timedelta64[D]", (2,)),
    TensorDesc("S7", (2,)),
    TensorDesc("U3", (2,)),
    TensorDesc("V5", (2,)),
    TensorDesc(np.dtype([("x", "i4"), ("y", "f8")]), (2,)),
    TensorDesc(np.dtype([("x", "i1"), ("y", "f8")], align=True), (2,)),
    TensorDesc(np.dtype([("m", "f4", (2, 3)), ("n", [("s", "S3"), ("t", "u2", (4,))])]), (2,)),
    TensorDesc(np.dtype({"names": ["a", "b"], "formats": ["u1", "i4"], "offsets": [2, 8], "itemsize": 16}), (2,)),
    TensorDesc(
        np.dtype({"names": ["a", "b"], "formats": ["f4", [("x", "i2")]], "offsets": [8, 0], "itemsize": 16}), (2,)
    ),
    TensorDesc(np.zeros(2, "f4,f8")[["f1", "f0"]].dtype, (2,)),
    TensorDesc(np.dtype([("x", np.zeros(2, "f4,f8")[["f1", "f0"]].dtype), ("y", "u1")]), (2,)),
    TensorDesc(np.dtype([(("a title", "x"), "i4"), ("y", "i2")]), (2,)),
] + [TensorDesc(member, (2,)) for member in TensorDataType]

DESCRIPTORS = [build(operator) for operator in TABLE] + [
    dataclasses.replace(build("GATHER"), bounds="clamp"),
    dataclasses.replace(build("GATHER_ELEMENTS"), bounds="drop"),
    dataclasses.replace(build("GATHER_ND1"), bounds="deferred"),
    dataclasses.replace(build("SCATTER"), reduction="add", unique=True, bounds="drop"),
    dataclasses.replace(build("SCATTER_ND"), reduction="max", unique=True),
    dml.ScatterNDDesc(
        TensorDesc("float32", (2, 3), (4, 1), total_tensor_size_in_bytes=128),
        TensorDesc("uint32", (2, 1), flags=TensorFlags.OWNED_BY_DML),
        TensorDesc("float32", (1, 2), guaranteed_base_offset_alignment=8),
        TensorDesc("float32", (2, 3)),
        2,
        2,
        batch_dimension_count=1,
    ),
    dml.GatherElementsDesc(
        TensorDesc(np.dtype([("x", "i4"), ("y", "f8", (2,))]), (3,)),
        TensorDesc("int64", (2,)),
        TensorDesc(np.dtype([("x", "i4"), ("y", "f8", (2,))]), (2,)),
        0,
    ),
    dataclasses.replace(build("TOP_K"), nan="largest", sorted=False),
    dataclasses.replace(build("TOP_K1"), nan="largest", sorted=False, axis_direction=AxisDirection.DECREASING),
]


def ids(values):
    return [f"{i}-{type(v).__name__}" for i, v in enumerate(values)]


@pytest.mark.parametrize("tensor", TENSORS, ids=repr)
def test_tensor_round_trips(tensor):
    through_json = json.loads(json.dumps(tensor.to_dict()))
    for twin in (TensorDesc.from_dict(tensor.to_dict()), TensorDesc.from_dict(through_json)):
        assert twin == tensor
        assert hash(twin) == hash(tensor)
        assert twin.to_dict() == tensor.to_dict()
        assert type(twin.data_type) is type(tensor.data_type)
    assert pickle.loads(pickle.dumps(tensor)) == tensor


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=ids(DESCRIPTORS))
def test_descriptor_round_trips(descriptor):
    through_json = json.loads(json.dumps(descriptor.to_dict()))
    for values in (descriptor.to_dict(), through_json):
        for kind in (type(descriptor), dml.Descriptor):
            twin = kind.from_dict(values)
            assert type(twin) is type(descriptor)
            assert twin == descriptor
            assert hash(twin) == hash(descriptor)
            for field in dataclasses.fields(descriptor):
                assert type(getattr(twin, field.name)) is type(getattr(descriptor, field.name))
    assert pickle.loads(pickle.dumps(descriptor)) == descriptor


def test_to_dict_is_plain():
    descriptor = build("TOP_K1", rank=1)
    tensor = {
        "data_type": "FLOAT32",
        "strides": None,
        "flags": 0,
        "total_tensor_size_in_bytes": None,
        "guaranteed_base_offset_alignment": 0,
    }
    assert descriptor.to_dict() == {
        "operator": "TopK1",
        "input_tensor": tensor | {"sizes": [3]},
        "output_value_tensor": tensor | {"sizes": [2]},
        "output_index_tensor": tensor | {"sizes": [2], "data_type": "UINT32"},
        "axis": 0,
        "k": 2,
        "axis_direction": "INCREASING",
        "nan": "last",
        "sorted": True,
    }


def test_numpy_numbers_become_plain_ones():
    one, four = np.int64(1), np.uint16(4)
    tensor = TensorDesc(
        np.int32(1),
        np.array([1, 3]),
        np.array([3, 1]),
        flags=one,
        total_tensor_size_in_bytes=np.int64(64),
        guaranteed_base_offset_alignment=four,
    )
    plain = TensorDesc(1, (1, 3), (3, 1), flags=1, total_tensor_size_in_bytes=64, guaranteed_base_offset_alignment=4)
    assert tensor == plain
    assert json.dumps(tensor.to_dict()) == json.dumps(plain.to_dict())
    descriptor = dml.TopK1Desc(
        tensor, TensorDesc(1, (1, 1)), TensorDesc(3, (1, 1)), axis=one, k=np.uint8(1), axis_direction=one
    )
    assert json.dumps(descriptor.to_dict()) == json.dumps(
        dml.TopK1Desc(plain, TensorDesc(1, (1, 1)), TensorDesc(3, (1, 1)), 1, 1, 1).to_dict()
    )


def test_from_dict_refuses_another_operator():
    values = build("TOP_K").to_dict()
    refusal(lambda: dml.GatherDesc.from_dict(values), "operator", "'TopK'", "Gather")
    refusal(lambda: dml.Descriptor.from_dict(values | {"operator": "Sort"}), "operator", "'Sort'", "GatherND1")


def test_from_dict_refuses_other_fields():
    values = build("TOP_K").to_dict()
    refusal(lambda: dml.Descriptor.from_dict(values | {"largest": True}), "largest", "field of this name", "axis")
    tensor = next(name for name, value in values.items() if isinstance(value, dict))
    refusal(
        lambda: dml.Descriptor.from_dict({**values, tensor: {**values[tensor], "x": 1}}), "x", "field of this", "sizes"
    )
    for wrong in ([1], [[1, 2]], {"names": ["a"]}):
        data = {**values[tensor], "data_type": wrong}
        refusal(
            lambda data=data: dml.Descriptor.from_dict({**values, tensor: data}), "data_type", repr(wrong), "float32"
        )
    for name, expected in ((tensor, "a tensor"), ("k", "a value"), ("operator", "one of Argmax")):
        fewer = {key: value for key, value in values.items() if key != name}
        refusal(lambda fewer=fewer: dml.Descriptor.from_dict(fewer), name, "nothing", expected)
    refusal(lambda: dml.Descriptor.from_dict(values | {"operator": []}), "operator", "[]", "one of Argmax")
    refusal(lambda: dml.Descriptor.from_dict(None), "values", "NoneType", "a mapping")
    best = dml.ArgmaxDesc(TensorDesc("f4", (2, 3)), TensorDesc("u4", (1, 3)), (0,), AxisDirection.INCREASING).to_dict()
    for count in (1.0, True, "1", 2):
        refusal(
            lambda n=count: dml.Descriptor.from_dict({**best, "axis_count": n}), "axis_count", repr(count), "1, the"
        )


def test_fields_of_another_kind_are_refused():
    top_k = build("TOP_K")
    tensor = top_k.input_fields[0]
    refusal(lambda: dataclasses.replace(top_k, **{tensor: np.zeros(3)}), tensor, "a ndarray", "a TensorDesc")
    refusal(lambda: dataclasses.replace(top_k, sorted="yes"), "sorted", "'yes'", "True or False")


def test_from_dict_validates():
    values = build("TOP_K").to_dict() | {"k": 9}
    refusal(lambda: dml.Descriptor.from_dict(values), "k", "9", "0 to 3")


def test_equality():
    assert TensorDesc("float32", (2, 3)) == TensorDesc(1, [2, 3]) == TensorDesc(np.dtype(">f4"), np.array([2, 3]))
    assert len({TensorDesc("float32", (2, 3)), TensorDesc(1, [2, 3]), TensorDesc(np.float32, (2, 3), None)}) == 1
    assert len(set(TENSORS)) == len(TENSORS)
    assert len(set(DESCRIPTORS)) == len(DESCRIPTORS)
    for operator in TABLE:
        assert build(operator) == build(operator)
        assert hash(build(operator)) == hash(build(operator))
        assert build(operator) != build(operator, size=4)
        assert dml.compile_operator(build(operator)) is dml.compile_operator(build(operator))
    # The same fields in another operator are another descriptor.
    assert build("GATHER_ND") != build("GATHER_ND1")
    assert build("GATHER") != build("GATHER_ELEMENTS")


NAMES = {name: getattr(dml, name) for name in dml.__all__}


def structured(value):
    """Structured types are the exception: a dtype's text is no dtype then."""
    tensor = value if isinstance(value, TensorDesc) else value.tensors()[tensor_fields(value)[0]]
    return isinstance(tensor.data_type, np.dtype) and tensor.data_type.names is not None


EVALUABLE = [value for value in TENSORS + DESCRIPTORS if not structured(value)]


@pytest.mark.parametrize("value", EVALUABLE, ids=ids(EVALUABLE))
def test_repr_evaluates_to_the_same(value):
    assert eval(repr(value), NAMES) == value


@pytest.mark.parametrize("value", [t for t in TENSORS if structured(t)], ids=repr)
def test_repr_of_structured_types_names_their_fields(value):
    assert all(repr(name) in repr(value) for name in value.data_type.names)


def test_repr_is_short():
    assert repr(TensorDesc("float32", (2, 2))) == "TensorDesc('float32', (2, 2))"
    assert repr(TensorDesc("uint8", [2, 3], [5, 1])) == "TensorDesc('uint8', (2, 3), (5, 1))"


@pytest.mark.parametrize("value", [TENSORS[0], *DESCRIPTORS[:8]], ids=ids([TENSORS[0], *DESCRIPTORS[:8]]))
def test_frozen(value):
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, getattr(value, field.name))
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(value, field.name)
