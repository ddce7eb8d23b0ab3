"""Numba's private API on the host: which names the package uses, and with which versions of Numba they were tested.

`probe` names what is missing when the CPU target is loaded, not in a user's first call. How helpers are compiled only
saves compile time (half of it or more): on a Numba that was not tested they are compiled in Numba's own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numba

#: The oldest and the newest version of Numba that the whole suite passed with.
OLDEST, NEWEST = (0, 63), (0, 68)

#: What nothing works without, by module.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "llvmlite": ("binding", "ir"),
    "numba.core": ("cgutils",),
    "numba.core.caching": ("CompileResultCacheImpl", "FunctionCache", "NullCache"),
    "numba.core.codegen": ("get_host_cpu_features",),
    "numba.core.compiler": ("Flags",),
    "numba.core.compiler_lock": ("global_compiler_lock",),
    "numba.core.errors": ("NumbaError",),
    "numba.core.extending": (
        "NativeValue",
        "intrinsic",
        "models",
        "overload",
        "register_jitable",
        "register_model",
        "unbox",
    ),
    "numba.core.runtime": ("rtsys",),
    "numba.core.targetconfig": ("ConfigStack",),
    "numba.np.numpy_support": ("as_dtype",),
}
#: What calls in jitted code need besides (`emission_late`): Numba loads most of these modules only then.
REQUIRED_IN_JITTED_CODE: Mapping[str, tuple[str, ...]] = {
    "numba.core.environment": ("Environment",),
    "numba.core.errors": ("TypingError",),
    "numba.core.runtime.context": ("NRTContext",),
    "numba.cpython.unicode": ("PY_UNICODE_1BYTE_KIND", "_empty_string", "_set_code_point"),
    "numba.np.arrayobj": ("_empty_nd_impl", "populate_array"),
}
#: What compiles helpers in half the time.
FOR_HELPERS: Mapping[str, tuple[str, ...]] = {
    "numba._dynfunc": ("make_function",),
    "numba.core": ("ir",),
    "numba.core.callconv": ("CPUCallConv", "RETCODE_OK", "Status"),
    "numba.core.codegen": ("JITCodeLibrary",),
    "numba.core.compiler": ("CompilerBase", "DefaultPassBuilder"),
    "numba.core.compiler_machinery": ("register_pass",),
    "numba.core.cpu": ("CPUContext",),
    "numba.core.ir_utils": ("build_definitions",),
    "numba.core.lowering": ("Lower",),
    "numba.core.ssa": ("reconstruct_ssa",),
    "numba.core.typed_passes": (
        "AnnotateTypes",
        "DumpParforDiagnostics",
        "InlineOverloads",
        "NativeLowering",
        "NoPythonSupportedFeatureValidation",
        "NopythonRewrites",
        "NopythonTypeInference",
        "PreLowerStripPhis",
    ),
    "numba.core.typing": ("signature",),
    "numba.core.untyped_passes": (
        "DeadBranchPrune",
        "FindLiterallyCalls",
        "IRProcessing",
        "InlineClosureLikes",
        "InlineInlinables",
        "LiteralPropagationSubPipelinePass",
        "LiteralUnroll",
        "MakeFunctionToJitFunction",
        "ReconstructSSA",
        "RewriteSemanticConstants",
        "WithLifting",
    ),
    "numba.np.arrayobj": ("load_item", "store_item"),
}
#: Attributes that are used or overridden, by the class that has them: no import would notice that one is gone.
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "numba.core.caching.CompileResultCacheImpl": ("_locator_classes",),
    "numba.core.caching.FunctionCache": ("_guard_against_spurious_io_errors", "_impl_class", "_load_overload"),
    "numba.core.compiler.CompileResult": ("_find_referenced_environments",),
}
_ATTRIBUTES_FOR_HELPERS: Mapping[str, tuple[str, ...]] = {
    "numba.core.codegen.JITCodeLibrary": (
        "_finalize_dynamic_globals",
        "_get_module_for_linking",
        "_optimize_functions",
    ),
    "numba.core.lowering.Lower": ("_lower_call_normal",),
}


def is_tested() -> bool:
    """Tell whether the suite passed with this version of Numba."""
    return bool(OLDEST <= numba.version_info.short <= NEWEST)


def missing(needed: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names, of modules or of classes, that this Numba does not have."""
    return [f"{owner}.{name}" for owner, names in needed.items() for name in names if _find(f"{owner}.{name}") is None]


def _find(name: str) -> Any:
    """Return a module, or what one has by a name; None if there is neither."""
    try:
        return import_module(name)
    except ImportError:
        owner, _, last = name.rpartition(".")
        return getattr(_find(owner), last, None) if owner else None


def probe(needed: Mapping[str, tuple[str, ...]]) -> None:
    """Raise an ImportError that names what this Numba does not have."""
    if absent := missing(needed):
        versions = " to ".join(".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise ImportError(
            f"numba_dml: found Numba {numba.__version__} without {', '.join(absent)}; "
            f"expected one that numba_dml was tested with: {versions}"
        )


def compiles_helpers() -> bool:
    """Tell whether helpers can be compiled in half the time."""
    return is_tested() and not missing(FOR_HELPERS) and not missing(_ATTRIBUTES_FOR_HELPERS)
