"""Device functions of tuples, written once, as plain Python on numbers and lists of numbers.

In the simulator such a function runs as it is. On a device it runs while a kernel is compiled, on values that note each
step in LLVM's code. So its loops and its branches on Python's own numbers are unrolled, and all numbers of a tuple stay
in registers, which Numba's own code for tuples and small arrays does not promise.
"""

from __future__ import annotations

import ctypes
import inspect

from ...driver.numba import SIMULATED
from ..bits import wrapped
from ..ptx import pointer_at

_KINDS = {16: ctypes.c_uint16, 32: ctypes.c_int32, 64: ctypes.c_int64}

if SIMULATED:

    def _plain(value):
        return [_plain(v) for v in value] if isinstance(value, tuple) else int(value)

    def _packed(value):
        return tuple(_packed(v) for v in value) if isinstance(value, (list, tuple)) else value

    def on_tuples(result):
        """Return what makes a device function of one; `result`: what it returns, by the types of its arguments."""
        return lambda function: lambda *args: _packed(function(*map(_plain, args)))

    def integers(count, bits=32):
        """Return the type of a tuple of integers."""

    int32 = None
    tuple_of_kinds = void = lambda *kinds: None

    def select(condition, a, b):
        """Return one of two numbers."""
        return a if condition else b

    def ordered(a, b):
        """Return two numbers, the higher one first."""
        return (a, b) if a > b else (b, a)

    def load(address, bits, count):
        """Return numbers from an address in shared memory on, 16 bytes of them at once."""
        return list(pointer_at(_KINDS[bits], address)[:count])

    def store(address, numbers, bits):
        """Store numbers from an address in shared memory on, 16 bytes of them at once."""
        for i, one in enumerate(numbers):
            pointer_at(_KINDS[bits], address)[i] = one

    def store_if(condition, address, one):
        """Store a number of 16 bits in shared memory, without a branch."""
        if condition:
            pointer_at(_KINDS[16], address)[0] = one

    def as_int32(number):
        """Return the lower 32 bits of a number."""
        return wrapped(number, 32)

    def shifted_right(low, high, by):
        """Return 32 bits of two words, from a bit below 32 on."""
        return as_int32(((high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF) >> by)

else:
    from ...driver.numba import intrinsic, ir, types

    _WORD = ir.IntType(32)

    class _Number:
        """A number of a kernel that is being compiled, with the operators of Python's."""

        def __init__(self, builder, value):
            self.builder, self.value = builder, value

        def new(self, value):
            return _Number(self.builder, value)

        def other(self, number, kind=None):
            """Return another number as LLVM has it, in this one's bits."""
            kind = kind or self.value.type
            value = number.value if isinstance(number, _Number) else ir.Constant(kind, int(number))
            if value.type.width == kind.width:
                return value
            return (self.builder.sext if value.type.width < kind.width else self.builder.trunc)(value, kind)

        def word(self):
            """Return the lower 32 bits, as an address in shared memory has."""
            return self.other(self, _WORD)

        def __invert__(self):
            return self ^ -1

        def __neg__(self):
            return self.new(self.builder.neg(self.value))

        def __rsub__(self, number):
            return self.new(self.builder.sub(self.other(number), self.value))

    def _operator(name, method, *sign):
        def step(self, number):
            return self.new(getattr(self.builder, method)(*sign, self.value, self.other(number)))

        setattr(_Number, f"__{name}__", step)

    for _name, _method in {"lshift": "shl", "rshift": "ashr", "and": "and_", "or": "or_", "sub": "sub"}.items():
        _operator(_name, _method)
    for _name, _method in {"xor": "xor", "add": "add", "mul": "mul"}.items():
        _operator(_name, _method)
        _operator(f"r{_name}", _method)
    for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
        _operator(_name, "icmp_signed", _sign)

    def _unpacked(builder, kind, value):
        if isinstance(kind, types.BaseTuple):
            return [_unpacked(builder, k, builder.extract_value(value, i)) for i, k in enumerate(kind.types)]
        return _Number(builder, value)

    def _packed(context, builder, kind, value):
        if isinstance(kind, types.BaseTuple):
            parts = [_packed(context, builder, k, v) for k, v in zip(kind.types, value, strict=True)]
            return context.make_tuple(builder, kind, parts)
        kind = context.get_value_type(kind)
        return value.other(value, kind) if isinstance(value, _Number) else ir.Constant(kind, value)

    def on_tuples(result):
        def wrap(function):
            def typed(typingctx, *kinds):
                returned = result(*kinds)

                def codegen(context, builder, signature, args):
                    values = [_unpacked(builder, kind, a) for kind, a in zip(signature.args, args, strict=True)]
                    found = function(*values)
                    if returned == types.void:
                        return context.get_dummy_value()
                    return _packed(context, builder, returned, found)

                return returned(*kinds), codegen

            # Numba goes by the names of arguments.
            context, _ = inspect.signature(typed).parameters.values()
            typed.__signature__ = inspect.Signature([context, *inspect.signature(function).parameters.values()])
            return intrinsic(typed)

        return wrap

    int32 = types.int32

    def integers(count, bits=32):
        return types.UniTuple(types.int32 if bits == 32 else types.int64, count)

    def tuple_of_kinds(*kinds):
        return types.Tuple(kinds)

    def void(*kinds):
        return types.void

    def select(condition, a, b):
        kind = next((number.value.type for number in (a, b) if isinstance(number, _Number)), _WORD)
        a, b = condition.other(a, kind), condition.other(b, kind)
        return condition.new(condition.builder.select(condition.value, a, b))

    def ordered(a, b):
        if a.value.type.width < 64:
            above = a > b
            return select(above, a, b), select(above, b, a)
        # As two selections LLVM makes a maximum and a minimum of them, which take a comparison each.
        asm = "{ .reg .pred p; setp.gt.s64 p, $2, $3; selp.b64 $0, $2, $3, p; selp.b64 $1, $3, $2, p; }"
        kind = ir.FunctionType(ir.LiteralStructType([a.value.type] * 2), [a.value.type] * 2)
        both = a.builder.call(ir.InlineAsm(kind, asm, "=&l,=&l,l,l"), [a.value, b.value])
        return a.new(a.builder.extract_value(both, 0)), a.new(a.builder.extract_value(both, 1))

    def _memory(address, asm, results, numbers=()):
        """Insert a step on shared memory."""
        letters = [f"=&{'r' if kind.width == 32 else 'l'}" for kind in results]
        letters += ["r", *("r" if a.type.width == 32 else "l" for a in numbers), "~{memory}"]
        returned = results[0] if len(results) == 1 else ir.LiteralStructType(results) if results else ir.VoidType()
        kind = ir.FunctionType(returned, [_WORD, *(a.type for a in numbers)])
        code = ir.InlineAsm(kind, asm, ",".join(letters), side_effect=True)
        return address.builder.call(code, [address.word(), *numbers])

    def _registers(first, together):
        names = ", ".join(f"${first + j}" for j in range(together))
        return f"{{{names}}}" if together > 1 else names

    def _shape(bits, together):
        return f".v{together}.b{bits}" if together > 1 else f".b{bits}"

    def load(address, bits, count):
        together = min(128 // bits, count)
        asm = "".join(
            f"ld.shared{_shape(bits, together)} {_registers(i, together)}, [${count}+{i * bits // 8}]; "
            for i in range(0, count, together)
        )
        found = _memory(address, asm, [ir.IntType(bits)] * count)
        if count == 1:
            return [address.new(found)]
        return [address.new(address.builder.extract_value(found, i)) for i in range(count)]

    def store(address, numbers, bits):
        together = min(128 // bits, len(numbers))
        asm = "".join(
            f"st.shared{_shape(bits, together)} [$0+{i * bits // 8}], {_registers(1 + i, together)}; "
            for i in range(0, len(numbers), together)
        )
        _memory(address, asm, [], [one.other(one, ir.IntType(bits)) for one in numbers])

    def store_if(condition, address, one):
        asm = "{ .reg .pred p; setp.ne.s32 p, $1, 0; @p st.shared.u16 [$0], $2; }"
        _memory(address, asm, [], [address.builder.zext(condition.value, _WORD), one.word()])

    def as_int32(number):
        return number.new(number.word())

    def shifted_right(low, high, by):
        kind = ir.FunctionType(_WORD, [_WORD] * 3)
        code = ir.InlineAsm(kind, "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r")
        return low.new(low.builder.call(code, [low.word(), high.word(), by.word()]))
