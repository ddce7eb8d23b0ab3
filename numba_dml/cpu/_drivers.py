"""The drivers, which run any kernel: a serial and a parallel one.

A kernel is called by its address, so that it is compiled once, not for either driver, and the parallel one, which
takes Numba longest, once for all. Kernels are ``kernel(phase, task, tasks, a, b, c, d, plan)``, with four references
to arrays; one that needs fewer gets any. With `ASK` as the task, and the number of threads for `tasks`, a kernel tells
how many tasks the phase has, 0: there is no such phase; or a status below 0, which ends the run. A task returns 0, or a
status above 0: the lowest one of a phase ends the run after it.
"""

from __future__ import annotations

import platform

import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.core.extending import intrinsic

from . import PLAN, helper, parallel, serial
from ._memory import ANY

ASK = -1
#: Of the drivers, without what comes last in the parallel one, the most threads it may use.
SIGNATURE = (types.int64, ANY, ANY, ANY, ANY, PLAN)
#: C's int.
_INT = ir.IntType(32)
_KERNEL = (types.int64, types.int64, types.int64, *SIGNATURE[1:])


def emit_call(context, builder, signature, function, *args, raises=True):
    """Emit the call of the code at an address, which returns an int64, and, if it may raise, what passes that on."""
    pointer = context.call_conv.get_function_type(types.int64, signature).as_pointer()
    code = builder.inttoptr(function, pointer)
    status, result = context.call_conv.call_function(builder, code, types.int64, signature, args)
    if raises:
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
    return result


@intrinsic
def call_kernel(typingctx, kernel, phase, task, tasks, a, b, c, d, plan):
    """``call_kernel(kernel, phase, task, tasks, a, b, c, d, plan)``: call the code at an address."""
    kind = types.int64(types.int64, *_KERNEL)
    return kind, lambda context, builder, signature, args: emit_call(context, builder, _KERNEL, *args)


@helper
def lower_status(a, b):
    """Return the lower of two statuses; 0 is none."""
    return b if a == 0 or 0 < b < a else a


@intrinsic
def relax(typingctx):
    """``relax()``: what GNU OpenMP does between two questions: wait a little, where the processor can."""

    def codegen(context, builder, signature, args):
        if platform.machine().lower() in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", fnty=kind), [])
        else:
            builder.fence("acquire")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def thread_mask(typingctx):
    """``thread_mask()``: how many threads Numba would use.

    Called from Python, `numba.get_num_threads` takes a lock that processes share, 1 µs of each launch; compiled by
    Numba, it would keep the driver out of the disk cache.
    """

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)  # as Numba declares it for `prange`
        ask = cgutils.get_or_insert_function(builder.module, ir.FunctionType(word, []), "get_num_threads")
        return builder.sext(builder.trunc(builder.call(ask, []), _INT), word)

    return types.int64(), codegen


@intrinsic
def set_thread_mask(typingctx, count):
    """``set_thread_mask(count)``: let Numba use so many threads."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [_INT])
        tell = cgutils.get_or_insert_function(builder.module, kind, "set_num_threads")
        builder.call(tell, [builder.trunc(args[0], _INT)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@serial
def spin(count):
    """Wait as a thread without work does, so many times."""
    for _ in range(count):
        relax()


@serial
def run_serial(kernel, a, b, c, d, plan):
    """Run a kernel on the calling thread."""
    status = np.int64(0)
    phase = 0
    while status == 0:
        tasks = call_kernel(kernel, phase, ASK, 1, a, b, c, d, plan)
        if tasks <= 0:
            return tasks
        for task in range(tasks):
            status = lower_status(status, call_kernel(kernel, phase, task, tasks, a, b, c, d, plan))
        phase += 1
    return status


@parallel
def run_parallel(kernel, a, b, c, d, plan, most):
    """Run a kernel on as many threads as Numba would use, or on `most`, if that is above 0 and they are fewer."""
    mask = thread_mask()
    threads = max(min(most, mask) if most > 0 else mask, 1)
    status = np.int64(0)
    phase = 0
    while status == 0:
        tasks = call_kernel(kernel, phase, ASK, threads, a, b, c, d, plan)
        if tasks <= 0:
            return tasks
        if tasks == 1 or threads == 1:  # without waking other threads
            for task in range(tasks):
                status = lower_status(status, call_kernel(kernel, phase, task, tasks, a, b, c, d, plan))
        else:
            found = np.empty(tasks, np.int64)
            set_thread_mask(threads)
            for task in prange(tasks):
                found[task] = call_kernel(kernel, phase, task, tasks, a, b, c, d, plan)
            set_thread_mask(mask)
            for task in range(tasks):
                status = lower_status(status, found[task])
        phase += 1
    return status
