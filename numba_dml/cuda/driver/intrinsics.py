"""What kernels are made of beyond Numba's own functions: inline PTX, and numbers and addresses of arguments."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any, NamedTuple

from .machine import on_gpu
from .numba import arrayobj, cgutils, intrinsic, ir, types


class Step(NamedTuple):
    """What a function does that is inline PTX; see `ptx`."""

    asm: str
    results: int
    arguments: int
    twin: Any
    bits: int
    of: int


#: All functions that are inline PTX: tests/test_ptx.py compares them with their twins.
STEPS: dict[Any, Step] = {}


@on_gpu
def shared_type(name: str) -> Any:
    """Return the type of an array in dynamic shared memory."""
    return getattr(types, name)


@on_gpu
def ptx(asm, results, arguments, twin, *, pure=False, bits=64, of=64, together=False):
    """Return inline PTX as a function of integers, with its twin.

    `results` is how many registers of `bits` bits it returns: none, one, or a tuple; arguments are registers of `of`
    bits. What is pure can be moved and merged; what the lanes of a warp do together, with registers alone, stays where
    all of them come by.
    """
    constraints = ",".join(
        ["=l" if bits == 64 else "=r"] * results
        + ["l" if of == 64 else "r"] * arguments
        + ([] if pure or together else ["~{memory}"])
    )
    number, register = (types.int64, ir.IntType(64)) if bits == 64 else (types.int32, ir.IntType(32))
    result = number if results == 1 else types.UniTuple(number, results) if results else types.void
    taken = ir.IntType(of)
    returned = register if results == 1 else ir.LiteralStructType([register] * results) if results else ir.VoidType()

    def codegen(context, builder, signature, args):
        args = [
            a if a.type.width == of else (builder.sext if a.type.width < of else builder.trunc)(a, taken) for a in args
        ]
        kind = ir.FunctionType(returned, [taken] * arguments)
        code = ir.InlineAsm(kind, asm, constraints, side_effect=not pure)
        value = builder.call(code, args, attrs=() if pure else ("convergent",))
        if results == 0:
            return context.get_dummy_value()
        if results == 1:
            return value
        return context.make_tuple(builder, result, [builder.extract_value(value, i) for i in range(results)])

    def typed(typingctx, *args):
        return result(*args), codegen

    # Numba goes by the names of arguments.
    names = ["typingctx", *(f"argument{i}" for i in range(arguments))]
    typed.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names])
    step = intrinsic(typed)
    STEPS[step] = Step(asm, results, arguments, twin, bits, of)
    return step


@on_gpu
def number_reader(load):
    """Return ``number(plan, field)``: a number of a plan, from a tuple of arguments or from memory."""

    @intrinsic
    def number(typingctx, plan, field):
        def from_arguments(context, builder, signature, args):
            numbers, field = args
            place = cgutils.alloca_once_value(builder, numbers)  # LLVM does without, since the field is known
            return builder.load(cgutils.gep(builder, place, 0, field))

        def from_memory(context, builder, signature, args):
            address, field = args
            address = builder.add(address, builder.mul(field, ir.Constant(field.type, 8)))
            return read(context, builder, load_signature, [address])

        load_signature, read = load._defn(typingctx, types.int64)
        is_given = isinstance(plan, types.BaseTuple)
        return types.int64(plan, types.int64), from_arguments if is_given else from_memory

    return number


@on_gpu
def address_reader():
    """Return ``shared_address(array)``: where an array in shared memory starts, as its loads and stores take it."""

    @intrinsic
    def shared_address(typingctx, array):
        def codegen(context, builder, signature, args):
            data = arrayobj.make_array(signature.args[0])(context, builder, args[0]).data
            byte = ir.PointerType(ir.IntType(8), addrspace=3)
            return builder.ptrtoint(builder.addrspacecast(data, byte), ir.IntType(64))

        return types.int64(array), codegen

    return shared_address
