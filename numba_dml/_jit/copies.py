"""Copies between raw addresses: vectors that overlap at the ends, prefetches, and stores past the caches."""

from __future__ import annotations

from functools import wraps

from numba import types

from .compile import helper
from .emission import cgutils, intrinsic, ir
from .machine import CACHE_LINE
from .memory import _WORD, ArrayRef, address, emit_byte_pointer, emit_load, emit_store

_LINE = ir.VectorType(_WORD, CACHE_LINE // 8)  #: the words of a cache line


def _emitted(emit):
    """Return the function for kernels whose code `emit(builder, *arguments)` emits: of references and of int64."""

    @wraps(emit)  # Numba looks at the signature
    def function(typingctx, *given):
        def codegen(context, builder, signature, args):
            emit(builder, *args)
            return context.get_dummy_value()

        return types.void(*(kind if isinstance(kind, ArrayRef) else types.int64 for kind in given)), codegen

    return intrinsic(function)


@_emitted
def copy_bytes(builder, target, to, source, fro, count):
    """``copy_bytes(target, offset, source, offset, count)``: a memcpy."""
    target, source = emit_byte_pointer(builder, target, to), emit_byte_pointer(builder, source, fro)
    cgutils.raw_memcpy(builder, target, source, count, 1)


def emit_prefetch(builder, pointer, level=1, writes=False):
    """Emit the request for the cache line that a pointer to bytes leads to, into caches of this level and above."""
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    builder.call(function, [pointer, number(int(writes)), number(4 - level), number(1)])  # to write, how near, data


def _prefetch(level, writes=False):
    @_emitted
    def prefetch(builder, ref, offset):
        """``prefetch(ref, offset)``: ask for the cache line at a byte offset. It never faults."""
        emit_prefetch(builder, emit_byte_pointer(builder, ref, offset), level, writes)

    return prefetch


#: For what is read next, for what should leave the L1 to others until it is read, and for what is written next.
prefetch, prefetch_to_l2, prefetch_to_write = _prefetch(1), _prefetch(2), _prefetch(1, writes=True)


def _ends_copy(size):
    @_emitted
    def copy_ends(builder, target, to, source, fro, count):
        """``copy_ends(target, offset, source, offset, count)``: copy `size` to twice as many bytes, by both ends."""
        end = ir.IntType(8 * size) if size <= 8 else ir.VectorType(_WORD, size // 8)
        rest = builder.sub(count, _WORD(size))
        read = [emit_load(builder, source, offset, end) for offset in (fro, builder.add(fro, rest))]
        for value, offset in zip(read, (to, builder.add(to, rest)), strict=True):
            emit_store(builder, value, target, offset)

    return copy_ends


#: Copies of few bytes without a loop: 2 to 4, and so on.
copy_2_to_4, copy_4_to_8, copy_8_to_16, copy_16_to_32 = map(_ends_copy, (2, 4, 8, 16))
copy_32_to_64, copy_64_to_128, copy_128_to_256 = map(_ends_copy, (32, 64, 128))


@_emitted
def copy_vectors(builder, target, to, source, fro, count):
    """``copy_vectors(target, offset, source, offset, count)``: copy 64 bytes or more, the last of them by the end."""

    def copy_line(at):
        words = emit_load(builder, source, builder.add(fro, at), _LINE)
        emit_store(builder, words, target, builder.add(to, at))

    last = builder.sub(count, _WORD(CACHE_LINE))
    with cgutils.for_range_slice(builder, _WORD(0), last, _WORD(CACHE_LINE)) as (at, _):
        copy_line(at)
    copy_line(last)


def _store_past_caches(builder, words, ref, offset):
    """Emit the store of a cache line past the caches, to an address that is aligned to it."""
    written = builder.store(words, builder.bitcast(emit_byte_pointer(builder, ref, offset), _LINE.as_pointer()))
    written.align = CACHE_LINE
    written.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


@_emitted
def stream_lines(builder, target, to, source, fro, lines):
    """``stream_lines(target, offset, source, offset, lines)``: copy cache lines past the caches.

    The target is aligned to them. Portable: without such stores, LLVM emits ordinary ones.
    """
    with cgutils.for_range(builder, lines) as loop:
        at = builder.mul(loop.index, _WORD(CACHE_LINE))
        words = emit_load(builder, source, builder.add(fro, at), _LINE)
        _store_past_caches(builder, words, target, builder.add(to, at))


@_emitted
def stream_joint(builder, target, to, source, end, start, head):
    """``stream_joint(target, offset, source, end, start, head)``: write a line past the caches that two runs share.

    Its last `head` bytes, 16, 32 or 48, come from `start` on, those before from what ends at `end`. Both runs have 64
    bytes at least, all of which are read.
    """
    before = builder.sub(end, _WORD(CACHE_LINE))
    runs = [emit_load(builder, source, offset, _LINE) for offset in (before, start)]

    def joined(head):
        places = [ir.IntType(32)(head // 8 + i) for i in range(_LINE.count)]
        return builder.shuffle_vector(*runs, ir.Constant(ir.VectorType(ir.IntType(32), _LINE.count), places))

    value = joined(48)
    for size in (32, 16):
        value = builder.select(builder.icmp_signed("==", head, _WORD(size)), joined(size), value)
    _store_past_caches(builder, value, target, to)


@_emitted
def finish_streams(builder):
    """``finish_streams()``: make streamed bytes visible before anything that this thread writes later.

    That is the flag that says it is done. Once at the end: it waits for all stores.
    """
    builder.fence("seq_cst")


@helper
def stream_bytes(target, to, source, fro, count):
    """Do what `copy_bytes` does, past the caches: the target is large, and is not read from memory before."""
    head = min(-(address(target) + to) & (CACHE_LINE - 1), count)
    lines = (count - head) // CACHE_LINE
    tail = head + lines * CACHE_LINE
    copy_bytes(target, to, source, fro, head)
    stream_lines(target, to + head, source, fro + head, lines)
    copy_bytes(target, to + tail, source, fro + tail, count - tail)
