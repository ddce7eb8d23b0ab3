"""How helpers are compiled: to code that waits, and is optimised in the kernel that it becomes a part of.

Numba optimises every jitted function and translates it to machine code, although a helper's is never run, and does the
same again, with all that it calls, in every function that calls it. A gather, three calls deep, took 10 s to compile
that way, and 5 with helpers that are optimised in the kernel only. On a slower machine it took 10 s so, a scatter 10, a
top-k 7.0; these take 6.9, 7.8 and 5.0 since a helper's code is linked once, into the kernel, types are remembered, and
no literal makes a helper be compiled apart; and four fifths of that by what `emit` leaves out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numba import types
from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.ir_utils import build_definitions
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import (
    AnnotateTypes,
    DumpParforDiagnostics,
    InlineOverloads,
    NativeLowering,
    NopythonRewrites,
    NoPythonSupportedFeatureValidation,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing import signature
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    IRProcessing,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    ReconstructSSA,
    RewriteSemanticConstants,
    WithLifting,
)

from .emit import HelperContext, HelperLower


class _WaitingLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code to be linked into other code: neither optimised nor translated, and without what it calls itself."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalize_dynamic_globals()
        self._finalized = True

    def _called(self) -> dict[Any, Any]:
        """Return the modules of all libraries that this code needs, each once."""
        found = {self: super()._get_module_for_linking()}
        for library in self._linking_libraries:
            if library not in found:
                found.update(
                    library._called()
                    if isinstance(library, _WaitingLibrary)
                    else {library: library._get_module_for_linking()}
                )
        return found

    def _get_module_for_linking(self) -> Any:
        module, *others = self._called().values()
        module = module.clone()
        for other in others:
            module.link_in(other, preserve=True)
        return module


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(NativeLowering):  # type: ignore[misc]
    """Lower a function that jitted functions call, but Python never does."""

    _name = "numba_dml_helper_lowering"

    @property
    def lowering_class(self) -> Any:
        return HelperLower

    def run_pass(self, state: Any) -> bool:
        state.library = _WaitingLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        state.targetctx.__class__ = HelperContext  # it is this function's own, see `BaseContext.subtarget`
        super().run_pass(state)
        lowered = state["cr"]
        name = lowered.fndesc.qualname
        # What Numba knows the code by; there is nothing that Python could call.
        entry = make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class _RememberingContext:
    """Numba's typing context, which remembers what functions return for which types.

    A gather asks 3700 times, of 300 different ones; most often what two integers add up to. Where arrays are given,
    those that count no references have answers of their own: Numba refuses them what allocates. (No helper makes an
    array from numbers alone: it gives a type, too.)

    It tells no helper that an argument is a literal, since it would be compiled apart for each, as `min` and `max` are;
    these are emitted, see `HelperLower`, where they are given integers of one type.
    """

    _found: ClassVar[dict[tuple[bool, Any, tuple[Any, ...]], Any]] = {}

    def __init__(self, context: Any, counts_references: bool) -> None:
        self._context = context
        self._counts_references = counts_references

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        resolve = self._context.resolve_function_type
        key = getattr(function, "typing_key", None)
        if isinstance(function, types.Dispatcher) or key in (min, max):
            args = tuple(map(types.unliteral, args))
        if key in (min, max) and len(args) == 2 and args[0] == args[1] and isinstance(args[0], types.Integer):
            return signature(args[0], *args)
        if keywords or not isinstance(function, types.Function):
            return resolve(function, args, keywords)
        numbers = all(isinstance(kind, (types.Number, types.Boolean)) for kind in args)
        key = self._counts_references and not numbers, function, args
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = resolve(function, args, keywords)
        return found


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperTypeInference(NopythonTypeInference):  # type: ignore[misc]
    """Find the types of a helper's variables."""

    _name = "numba_dml_helper_type_inference"

    def run_pass(self, state: Any) -> bool:
        context = state.typingctx
        state.typingctx = _RememberingContext(context, state.flags.nrt)
        try:
            return bool(super().run_pass(state))
        finally:
            state.typingctx = context


@register_pass(mutates_CFG=False, analysis_only=False)
class _HelperSSA(ReconstructSSA):  # type: ignore[misc]
    """Give each assignment of a helper a variable of its own, and leave the lives of these to a later pass."""

    _name = "numba_dml_helper_ssa"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _HelperStripPhis(PreLowerStripPhis):  # type: ignore[misc]
    """Undo where branches meet what `_HelperSSA` did, and leave the same."""

    _name = "numba_dml_helper_strip_phis"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


#: What helpers have no use for: closures, expressions of whole arrays, branches that types decide, `with`, and notes
#: for people. To look for these takes an eighth of the time. And what brings the lives of variables up to date for
#: passes that do so themselves: a twentieth.
_LEFT_OUT = (
    AnnotateTypes,
    DeadBranchPrune,
    DumpParforDiagnostics,
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    InlineOverloads,
    IRProcessing,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    NativeLowering,
    NoPythonSupportedFeatureValidation,
    NopythonRewrites,
    NopythonTypeInference,
    PreLowerStripPhis,
    ReconstructSSA,
    RewriteSemanticConstants,
    WithLifting,
)


class HelperCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for helpers: a `pipeline_class` of `numba.njit`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_HelperTypeInference, NopythonTypeInference)
        passes.add_pass_after(_HelperLowering, NativeLowering)
        passes.add_pass_after(_HelperSSA, ReconstructSSA)
        passes.add_pass_after(_HelperStripPhis, PreLowerStripPhis)
        passes.passes = [(kind, text) for kind, text in passes.passes if kind not in _LEFT_OUT]
        passes.finalize()
        return [passes]
