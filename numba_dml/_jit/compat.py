"""With which versions of Numba the package was tested, and what an error says of another one.

Only this folder imports private names: `emission`, `compile`, `disk_cache` and `machine` when the CPU target is loaded,
`emission_late` when jitted calls are. One that is gone is found then, not in a user's first call; what objects have by
name is found by the tests. `helper_compiler` only saves compile time (half of it or more): on a Numba that was not
tested helpers are compiled in Numba's own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numba

OLDEST, NEWEST = (0, 63), (0, 68)  #: the oldest and the newest version of Numba that the whole suite passed with

#: Attributes that are looked for when the CPU target is loaded, by their class: no import would notice a lack.
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "numba.core.caching.CompileResultCacheImpl": ("_locator_classes",),
    "numba.core.caching.FunctionCache": ("_guard_against_spurious_io_errors", "_impl_class", "_load_overload"),
    "numba.core.compiler.CompileResult": ("_find_referenced_environments",),
}
#: The same of what compiles helpers in half the time.
ATTRIBUTES_FOR_HELPERS: Mapping[str, tuple[str, ...]] = {
    "numba.core.codegen.JITCodeLibrary": (
        "_finalize_dynamic_globals",
        "_get_module_for_linking",
        "_optimize_functions",
    ),
    "numba.core.lowering.Lower": ("_lower_call_normal",),
}


def missing(needed: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the attributes of classes that this Numba does not have."""
    found = []
    for owner, names in needed.items():
        module, _, kind = owner.rpartition(".")
        found += [f"{owner}.{name}" for name in names if not hasattr(getattr(import_module(module), kind), name)]
    return found


@contextmanager
def explained() -> Iterator[None]:
    """Raise an ImportError that says what this Numba lacks of what the block imports, or of `ATTRIBUTES`."""
    try:
        yield
        if absent := missing(ATTRIBUTES):
            raise ImportError(f"there is no {', '.join(absent)}")
    except ImportError as error:
        versions = " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise ImportError(
            f"numba_dml: found Numba {numba.__version__} ({error}); "
            f"expected one that numba_dml was tested with: {versions}"
        ) from error


def helper_compiler() -> Any:
    """Return what compiles helpers in half the time, or None on a Numba that was not tested, or lacks an attribute."""
    if not OLDEST <= numba.version_info.short <= NEWEST:
        return None
    from .helper_compiler import HelperCompiler

    return None if missing(ATTRIBUTES_FOR_HELPERS) else HelperCompiler
