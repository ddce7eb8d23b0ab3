"""How helpers are compiled: to code that waits, and is optimised in the kernel that it becomes a part of.

Numba optimises every jitted function and translates it to machine code, although a helper's is never run, and does the
same again, with all that it calls, in every function that calls it. A gather, three calls deep, took 10 s to compile
that way, and 5 with helpers that are optimised in the kernel only. On a slower machine it took 10 s so, a scatter 10, a
top-k 7.0; these take 6.9, 7.8 and 5.0 since a helper's code is linked once, into the kernel, types are remembered, and
no literal makes a helper be compiled apart; and four fifths of that by what `HelperLower` leaves out.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numba import types
from numba._dynfunc import make_function
from numba.core import cgutils, ir
from numba.core.callconv import RETCODE_OK, CPUCallConv, Status
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.typing import signature
from numba.np.arrayobj import load_item, store_item


class _HelperCalls(CPUCallConv):  # type: ignore[misc]
    """How a helper calls others: none catches what they raise, so errors go where its caller wants them."""

    def call_function(self, builder: Any, callee: Any, resty: Any, argtys: Any, args: Any, attrs: Any = None) -> Any:
        if isinstance(resty, types.Optional):  # nothing, too, is a status
            return super().call_function(builder, callee, resty, argtys, args, attrs)
        with builder.goto_entry_block():
            place = builder.alloca(self._get_return_argument(callee.function_type).pointee)
        given = self._get_arg_packer(argtys).as_arguments(builder, args)
        code = builder.call(callee, [place, self._get_excinfo_argument(builder.function), *given])
        failed = builder.icmp_signed("!=", code, RETCODE_OK)
        status = Status(code, None, None, failed, failed, None, None, None)
        return status, self.context.get_returned_value(builder, resty, builder.load(place))

    def return_status_propagate(self, builder: Any, status: Any) -> None:
        if status.excinfoptr is None:
            builder.ret(status.code)
        else:
            super().return_status_propagate(builder, status)


class HelperContext(CPUContext):  # type: ignore[misc]
    """Numba's context of a processor, in which helpers call others."""

    @property
    def call_conv(self) -> Any:
        return _HelperCalls(self)


class HelperLower(Lower):  # type: ignore[misc]
    """Numba's emitter, for helpers: it emits three fifths of the instructions that Numba needs for any Python.

    An element of an array took 26 of them, since its index may be negative (none of a helper's is, and none is counted
    from the end); the call of a helper 24, since that may be in a `try`; the step of a loop some 30; and what is no
    longer used was emptied, although nobody counts its owners. To write, read and drop all that was a sixth of a first
    call: a gather of rows took 6.2 s and takes 5.1, a top-k of 1000 lines of 64 took 6.0 and takes 4.8 (an AMD EPYC,
    the least of three in turns). The machine code is as fast.
    """

    #: What emits a binary operation, and the signature it is given, by the operation and the types.
    _operations: ClassVar[dict[Any, Any]] = {}

    def lower_inst(self, inst: Any) -> Any:
        if isinstance(inst, ir.StaticSetItem) and isinstance(self.typeof(inst.target.name), types.Array):
            return self.lower_setitem(inst.target, inst.index_var, inst.value, self.fndesc.calltypes[inst])
        return super().lower_inst(inst)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        if isinstance(ty, types.Dispatcher):  # it is called by its name
            return self.context.get_constant_null(ty)
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op == "static_getitem" and isinstance(self.typeof(expr.value.name), types.Array):
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, self.fndesc.calltypes[expr])
        if expr.op in ("pair_first", "pair_second") and not self.context.enable_nrt:
            return self.builder.extract_value(self.loadvar(expr.value.name), int(expr.op == "pair_second"))
        if expr.op == "iternext" and self.typeof(expr.value.name) == types.range_iter64_type:
            return self._next(self.loadvar(expr.value.name))
        return super().lower_expr(resty, expr)

    def _next(self, iterator: Any) -> Any:
        """Emit the pair of a `range`'s next number and whether there is one.

        How many are left is counted down as Numba does it, and what it starts with is Numba's: by shorter code for
        that, and by a comparison with the end, LLVM unrolled other loops. An AMD EPYC took 1.3 times as long for 10M
        pairs of indices and for 1M sums of bytes, an Intel Xeon 1.1 times for `scatter_elements` along axis 1.
        """
        builder = self.builder
        current, _, step, left = cgutils.unpack_tuple(builder, iterator)
        count = builder.load(left)
        valid = builder.icmp_signed(">", count, count.type(0))
        with builder.goto_entry_block():
            place = builder.alloca(count.type)
        with builder.if_then(valid):
            number = builder.load(current)
            builder.store(number, place)
            builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
            builder.store(builder.add(number, step), current)
        return cgutils.pack_struct(builder, [builder.load(place), valid])

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        function, kind = getattr(fnty, "typing_key", None), signature.return_type
        if function is range and kind == types.range_state64_type:
            given = [self._cast_var(value, types.int64) for value in expr.args]
            word = given[0].type
            fields = {1: [word(0), *given, word(1)], 2: [*given, word(1)], 3: given}[len(given)]
            return cgutils.pack_struct(self.builder, fields)
        if function in (min, max) and isinstance(kind, types.Integer) and len(expr.args) == 2:
            a, b = (self._cast_var(value, kind) for value in expr.args)
            compare = self.builder.icmp_signed if kind.signed else self.builder.icmp_unsigned
            return self.builder.select(compare("<" if function is min else ">", b, a), b, a)
        return super()._lower_call_normal(fnty, expr, signature)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Emit an operation, whose signature Numba would look up four times."""
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        kinds = self.fndesc.calltypes[expr].args
        if (op, kinds) not in self._operations:
            function = self.context.typing_context.resolve_value_type(op)
            signature = function.get_call_type(self.context.typing_context, kinds, {})
            self._operations[op, kinds] = self.context.get_function(function, signature)._imp, signature
        emit, signature = self._operations[op, kinds]
        self.context.add_linking_libs(getattr(emit, "libs", ()))
        values = [self._cast_var(value, kind) for value, kind in zip((expr.lhs, expr.rhs), kinds, strict=True)]
        result = emit(self.context, self.builder, signature, values, loc=None)
        return self.context.cast(self.builder, result, signature.return_type, resty)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        place = self._place(value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        return load_item(self.context, self.builder, self.typeof(value.name), place)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        place = self._place(target_var, index_var)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array = self.typeof(target_var.name)
        return store_item(self.context, self.builder, array, self._cast_var(value_var, array.dtype), place)

    def _place(self, array: Any, index: Any) -> Any:
        """Emit the pointer to an element of a vector, or return None if it is anything else."""
        kind = self.typeof(array.name)
        if not isinstance(self.typeof(index.name), types.Integer) or not isinstance(kind, types.Array):
            return None
        if kind.ndim != 1 or kind.layout != "C":
            return None
        data = self.context.data_model_manager[kind].get(self.builder, self.loadvar(array.name), "data")
        return self.builder.gep(data, [self._cast_var(index, types.int64)])

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        if self.context.enable_nrt or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, self.typeof(name))
        self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if self.context.enable_nrt:
            super().delvar(name)


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


#: Passes of Numba's that helpers have no use for: they look for closures, expressions of whole arrays, branches that
#: types decide and `with`, or make notes for people, in an eighth of the time. And the two that are replaced.
_LEFT_OUT = {
    *("AnnotateTypes", "DeadBranchPrune", "DumpParforDiagnostics", "FindLiterallyCalls", "InlineClosureLikes"),
    *("InlineInlinables", "InlineOverloads", "IRProcessing", "LiteralPropagationSubPipelinePass", "LiteralUnroll"),
    *("MakeFunctionToJitFunction", "NoPythonSupportedFeatureValidation", "NopythonRewrites", "WithLifting"),
    *("RewriteSemanticConstants", "NativeLowering", "NopythonTypeInference"),
}


class HelperCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for helpers: a `pipeline_class` of `numba.njit`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_HelperTypeInference, NopythonTypeInference)
        passes.add_pass_after(_HelperLowering, NativeLowering)
        passes.passes = [(kind, text) for kind, text in passes.passes if kind.__name__ not in _LEFT_OUT]
        passes.finalize()
        return [passes]
