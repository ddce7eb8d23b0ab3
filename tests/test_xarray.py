"""The code of the page "Larger than memory" is run, and compared with NumPy and xarray."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

dask = pytest.importorskip("dask")
xr = pytest.importorskip("xarray")

import numba_dml as dml  # noqa: E402

pytestmark = pytest.mark.cpu

PAGE = (Path(__file__).parent.parent / "docs/larger-than-memory.md").read_text()
BLOCKS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if not re.search("cupy|Client", block)]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return what the page's code defines, which is run as a script."""
    script = tmp_path_factory.mktemp("page") / "page.py"
    script.write_text("\n".join(BLOCKS))
    with dask.config.set(scheduler="synchronous"):
        return runpy.run_path(str(script))


@pytest.fixture
def heat():
    """Return rounded temperatures, which have ties, and some NaN."""
    rng = np.random.default_rng(3)
    values = rng.normal(20, 5, (40, 6, 7)).round().astype(np.float32)
    values[rng.random(values.shape) < 0.1] = np.nan
    coords = {
        "time": np.arange("2025-01-01", "2025-02-10", dtype="datetime64[D]").astype("datetime64[ns]"),
        "lat": np.linspace(-60, 60, 6),
        "lon": np.arange(7),
        "height": ("lat", np.arange(6) * 100),
    }
    return xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords)


@pytest.fixture(params=[None, {"time": 7, "lat": 4, "lon": 3}, {"lat": 1}], ids=["memory", "chunks", "whole"])
def chunked(request, heat):
    return heat if request.param is None else heat.chunk(request.param)


def test_the_page_has_the_blocks():
    assert len(BLOCKS) == 4


def test_the_first_example(page):
    scores = page["scores"].compute()
    values, indices = dml.top_k(scores, 50)
    np.testing.assert_array_equal(page["values"], values)
    np.testing.assert_array_equal(page["indices"], indices)


def test_the_message_of_a_bad_index(page):
    assert f'"{page["message"]}"' in PAGE


@pytest.mark.parametrize(("dim", "k"), [("time", 5), ("lat", 6), ("lon", 1)])
def test_nlargest(page, heat, chunked, dim, k):
    found, positions = page["nlargest"](chunked, k, dim)
    others = tuple(d for d in heat.dims if d != dim)
    assert found.dims == positions.dims == (*others, "rank")
    for d in others:
        xr.testing.assert_identical(found[d], heat[d])
        xr.testing.assert_identical(positions[d], heat[d])
    assert dim not in found.coords
    assert ("height" in found.coords) == (dim != "lat")
    lines = heat.transpose(..., dim).values
    # A stable sort puts equal elements in the order of their positions, and NaN last.
    order = np.argsort(-lines, axis=-1, kind="stable")[..., :k]
    np.testing.assert_array_equal(positions.values, order)
    np.testing.assert_array_equal(found.values, np.take_along_axis(lines, order, -1))


def test_nlargest_of_one_place_sorts_as_xarray(page, heat, chunked):
    found, positions = page["nlargest"](chunked.isel(lat=2, lon=3), 10, "time")
    line = heat.isel(lat=2, lon=3).dropna("time")
    np.testing.assert_array_equal(found.values, line.sortby(-line).values[:10])
    np.testing.assert_array_equal(heat.time[positions.compute()], line.time.sortby(-line)[:10])


@pytest.mark.parametrize("dim", ["time", "lat", "lon"])
def test_take_along(page, heat, chunked, dim):
    positions = page["nlargest"](chunked, 4, dim)[1]
    other = chunked * 2 + 1
    found = page["take_along"](other, positions, dim)
    xr.testing.assert_identical(found.compute().drop_vars(dim, errors="ignore"), expected(heat * 2 + 1, positions, dim))


def test_take_along_refuses_positions_of_other_places(page, chunked):
    positions = page["nlargest"](chunked, 4, "time")[1]
    with pytest.raises(ValueError, match="lat"):
        page["take_along"](chunked, positions.isel(lat=slice(3)), "time")


def expected(array, positions, dim):
    """Return what xarray's own indexing by arrays gives."""
    taken = array.isel({dim: positions.compute()})
    return taken.drop_vars([name for name in taken.coords if dim in array[name].dims]).transpose(*positions.dims)


@pytest.mark.parametrize("name", ["time", "event"])
@pytest.mark.parametrize("dim", ["time", "lat"])
def test_take(page, heat, chunked, dim, name):
    positions = xr.DataArray([3, 0, 3, -1], dims=name if dim == "time" else "event")
    found = page["take"](chunked, positions, dim)
    assert found.dims == (*(d for d in heat.dims if d != dim), *positions.dims)
    reference = heat.isel({dim: positions}).transpose(*found.dims)
    np.testing.assert_array_equal(found.values, reference.values)
    for d in found.dims[:-1]:
        xr.testing.assert_equal(found[d].reset_coords(drop=True), heat[d].reset_coords(drop=True))


def test_the_dates_of_positions(page, heat, chunked):
    positions = page["nlargest"](chunked, 4, "time")[1]
    dates = page["take"](chunked.time, positions, "time")
    np.testing.assert_array_equal(dates.values, heat.time.values[positions.values])


def test_the_weather(page):
    weather = page["weather"].compute()
    hottest = weather.isel(lat=4, lon=5).sortby(-weather.heat.isel(lat=4, lon=5)).isel(time=slice(3))
    place = {"lat": 4, "lon": 5}
    np.testing.assert_array_equal(page["hottest"].isel(place), hottest.heat)
    np.testing.assert_array_equal(page["dates"].isel(place), hottest.time)
    np.testing.assert_array_equal(page["wind"].isel(place), hottest.wind)
    np.testing.assert_array_equal(page["weekly"].isel(place), weather.heat.isel(place).values[::7])
