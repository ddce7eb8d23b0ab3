"""What an operator's page says of feature levels, as a table, and the check that descriptors follow it."""

import re

import pytest

from numba_dml import DescriptorError, FeatureLevel, TensorDataType

TF = {"FLOAT32", "FLOAT16"}
T8 = TF | {"INT32", "INT16", "INT8", "UINT32", "UINT16", "UINT8"}
T10 = T8 | {"INT64", "UINT64"}
T11 = T10 | {"FLOAT64"}
I4 = {"UINT32", "INT32", "UINT64", "INT64"}


def check_level(level, table, build, *, data, indices, dimensions="input_tensor"):
    """Check which data types, index types and numbers of dimensions a level accepts, and how it refuses all others.

    A row of `table` is the first level for which it holds, the types of the data, those of the indices, and the least
    and the largest number of dimensions; the newest level comes first. `build(data, index, rank)` makes a descriptor
    that the table alone can refuse. The last three arguments are the fields that errors name.
    """

    def refuse(field, found, expected, **given):
        with pytest.raises(DescriptorError, match=f"{field}: found {found}, expected {expected}") as caught:
            build(**given).validate(level)
        return caught.value

    row = next((row for row in table if FeatureLevel[row[0]] <= level), None)
    if row is None:
        refuse("feature_level", level.name, f"{table[-1][0]} or later")
        return
    _, types, index_types, (low, high) = row
    for kind in TensorDataType:
        if kind.name in types:
            build(data=kind.name).validate(level)
        else:
            error = refuse(data, kind.name, "one of", data=kind.name)
            assert {*re.findall(r"\w*[A-Z]+\d+", str(error.expected))} == types
    for kind in sorted(I4 | {"UINT8"}):
        if kind in index_types:
            build(index=kind).validate(level)
        else:
            error = refuse(indices, kind, "one of", index=kind)
            assert {*re.findall(r"\w*[A-Z]+\d+", str(error.expected))} == index_types
    for rank in range(1, 10):
        if low <= rank <= high:
            build(rank=rank).validate(level)
        else:
            limits = f"{low} to {high}" if low < high else f"{low}"
            refuse(dimensions, f"{rank} dimensions", f"{limits} dimensions", rank=rank)
