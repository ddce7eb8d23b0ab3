"""The drivers, which run any kernel: on this thread, with the interpreter's lock or without, or on several.

A kernel is called by its address, so that it is compiled once, not for each driver. Kernels are ``kernel(phase,
task, tasks, a, b, c, d, plan)``, with four references to arrays; one that needs fewer gets any. With `ASK` as the task,
and the number of threads for `tasks`, a kernel tells how many tasks the phase has, 0: there is no such phase; or a
status below 0, which ends the run. A task returns 0, or a status above 0: the lowest one of a phase ends the run after
it.
"""

from __future__ import annotations

import platform

import numpy as np
from numba import types

from .._jit.compile import PLAN, helper, locking, unlocking
from .._jit.emission import cgutils, intrinsic, ir
from .._jit.memory import ANY

ASK = -1
#: The status of a kernel that did nothing, since an output shares memory with what it reads or another output.
OVERLAP = -1
#: The status of a task that could not allocate what it needs: any other one is lower.
NO_MEMORY = (1 << 63) - 1
#: Of the drivers, without what comes last in the parallel one, the most threads it may use.
SIGNATURE = (types.int64, ANY, ANY, ANY, ANY, PLAN)
_KERNEL = (types.int64, types.int64, types.int64, *SIGNATURE[1:])
#: C's int, size_t where Numba's layers are built, and a pointer.
_INT, _WORD, _POINTER = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
#: What a layer runs a part of a loop by: pointers to the arguments of its first step, to the number of steps, to what
#: each of them adds to the arguments; and data that all parts share.
_PART = ir.FunctionType(ir.VoidType(), [_POINTER.as_pointer(), _WORD.as_pointer(), _WORD.as_pointer(), _POINTER])
#: What runs a loop, `numba_parallel_for`: the code for a part, and what that gets, but for the whole loop; the
#: dimensions within a step, the number of arguments, and that of threads.
_LOOP = ir.FunctionType(ir.VoidType(), [_POINTER, *_PART.args, _WORD, _WORD, _INT])


def _emit_plain_call(context, builder, signature, function, args):
    """Emit the call of the code at an address, and return what tells whether it raised, and the int64 it returns."""
    pointer = context.call_conv.get_function_type(types.int64, signature).as_pointer()
    return context.call_conv.call_function(builder, builder.inttoptr(function, pointer), types.int64, signature, args)


def emit_call(context, builder, signature, function, *args, raises=True):
    """Emit the call of the code at an address, which returns an int64, and, if it may raise, what passes that on."""
    status, result = _emit_plain_call(context, builder, signature, function, args)
    if raises:
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
    return result


def _borrowed(context, builder, plan):
    """Return the plan without its owner, so that no kernel counts its references.

    Threads wait for each other's counts: 1M sums into 2000 float32 took 16 of them 4.9 ms, and 2.0 without.
    """
    array = context.make_array(PLAN)(context, builder, plan)
    array.meminfo = array.meminfo.type(None)
    return array._getvalue()


@intrinsic
def call_kernel(typingctx, kernel, phase, task, tasks, a, b, c, d, plan):
    """``call_kernel(kernel, phase, task, tasks, a, b, c, d, plan)``: call the code at an address."""

    def codegen(context, builder, signature, args):
        return emit_call(context, builder, _KERNEL, *args[:-1], _borrowed(context, builder, args[-1]))

    return types.int64(types.int64, *_KERNEL), codegen


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


# C's functions behind Numba's: called from Python, `numba.get_num_threads` takes a lock that processes share, 1 µs of
# each launch; compiled by Numba, it would keep the driver out of the disk cache.
get_thread_mask = types.ExternalFunction("get_num_threads", types.int32())
set_thread_mask = types.ExternalFunction("set_num_threads", types.void(types.int32))


def _emit_part(context, module, shared):
    """Emit the code that a thread runs its share of the tasks by.

    A step is such a share: the layer `workqueue` gives all steps to one thread if they are fewer than the threads. Its
    argument is the address of the shared data, plus its number: nothing is read there.
    """
    part = ir.Function(module, _PART, module.get_unique_name("run_some_tasks"))
    part.linkage = "internal"
    arguments, count, _, data = part.args
    builder = ir.IRBuilder(part.append_basic_block())
    lowest, steps, kernel, phase, tasks, *arrays = cgutils.unpack_tuple(
        builder, builder.load(builder.bitcast(data, shared))
    )
    step = builder.sub(*[builder.ptrtoint(pointer, _WORD) for pointer in (builder.load(arguments), data)])
    begin, end = (builder.sdiv(builder.mul(tasks, at), steps) for at in (step, builder.add(step, builder.load(count))))
    with cgutils.for_range_slice(builder, begin, end, _WORD(1)) as (task, _):
        failure, status = _emit_plain_call(context, builder, _KERNEL, kernel, [phase, task, tasks, *arrays])
        status = builder.select(failure.is_error, _WORD(NO_MEMORY), status)
        with builder.if_then(cgutils.is_not_null(builder, status), likely=False):
            builder.atomic_rmw("umin", lowest, builder.sub(status, _WORD(1)), "monotonic")
    builder.ret_void()
    return part


@intrinsic
def run_tasks(typingctx, threads, kernel, phase, tasks, a, b, c, d, plan):
    """``run_tasks(threads, kernel, phase, tasks, a, b, c, d, plan)``: run a phase on `threads` of Numba's threads.

    Return the lowest status. This calls the threading layer as Numba does for a `prange`, but without the interpreter's
    lock, which Numba takes and gives back around each of those: beside a thread that runs Python, a gather of 1 MB took
    11 ms so, and takes 6. Numba's schedules took 1 to 2 µs, and to compile them 0.9 s of 1.2.
    """

    def codegen(context, builder, signature, args):
        threads, kernel, phase, tasks, *arrays = args
        arrays[-1] = _borrowed(context, builder, arrays[-1])
        lowest = cgutils.alloca_once_value(builder, _WORD(-1))  # less 1, so that this is none
        shared = cgutils.pack_struct(builder, [lowest, threads, kernel, phase, tasks, *arrays])
        data = cgutils.alloca_once_value(builder, shared)
        part = _emit_part(context, builder.module, data.type)
        data = builder.bitcast(data, _POINTER)
        pointers = [cgutils.alloca_once_value(builder, value) for value in (data, threads, _WORD(1))]
        run = cgutils.get_or_insert_function(builder.module, _LOOP, "numba_parallel_for")
        count = builder.trunc(threads, _INT)
        builder.call(run, [builder.bitcast(part, _POINTER), *pointers, data, _WORD(0), _WORD(1), count])
        return builder.add(builder.load(lowest), _WORD(1))

    return types.int64(types.int64, types.int64, types.int64, *_KERNEL[2:]), codegen


@unlocking
def spin(count):
    """Wait `count` times as a thread without work does."""
    for _ in range(count):
        relax()


@helper
def run_here(kernel, a, b, c, d, plan):
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


@unlocking
def run_serial(kernel, a, b, c, d, plan):
    """Run a kernel on the calling thread, without the interpreter's lock."""
    return run_here(kernel, a, b, c, d, plan)


@locking
def run_locked(kernel, a, b, c, d, plan):
    """Run a kernel on the calling thread, with the interpreter's lock."""
    return run_here(kernel, a, b, c, d, plan)


@unlocking
def run_parallel(kernel, a, b, c, d, plan, most):
    """Run a kernel on as many threads as Numba would use, or on `most`, if that is above 0 and they are fewer."""
    threads = mask = get_thread_mask()
    if 0 < most < mask:  # `min` would be compiled
        threads = most
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
            status = run_tasks(threads, kernel, phase, tasks, a, b, c, d, plan)
            set_thread_mask(mask)  # the layer has set that of this thread
            if status == NO_MEMORY:
                raise MemoryError("numba_dml: no memory for what a kernel works with")
        phase += 1
    return status
