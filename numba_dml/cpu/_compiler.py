"""How helpers are compiled: to code that waits, and is optimised in the kernel that it becomes a part of.

Numba optimises every jitted function and translates it to machine code, although a helper's is never run, and does the
same again, with all that it calls, in every function that calls it. A gather, three calls deep, took 10 s to compile
that way; it takes 5 with helpers that are optimised in the kernel only.
"""

from __future__ import annotations

from typing import Any

from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class _WaitingLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code to be linked into other code: neither optimised nor translated."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _HelperLowering(NativeLowering):  # type: ignore[misc]
    """Lower a function that jitted functions call, but Python never does."""

    _name = "numba_dml_helper_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _WaitingLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        name = lowered.fndesc.qualname
        # What Numba knows the code by; there is nothing that Python could call.
        entry = make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class HelperCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for helpers: a `pipeline_class` of `numba.njit`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_HelperLowering, NativeLowering)
        passes.passes = [(kind, text) for kind, text in passes.passes if kind is not NativeLowering]
        passes.finalize()
        return [passes]
