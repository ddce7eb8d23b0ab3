"""Top-1: the best element of each line, or of each of its parts and then of these.

`values` is 0 if they are not wanted. `found` is the address of the best key and its position, for each part of a line;
0: lines have one part.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..driver.launch import Kernel
from ..driver.numba import BLOCK, cuda
from ..primitives.access import LOAD_INDEX, unit_access
from ..primitives.plan import number, quotient
from ..primitives.ptx import await_inputs
from ..primitives.top_k import plan as fields
from ..primitives.top_k.keys import key_access, key_type, lowest_key
from ..primitives.top_k.plan import END, ENDS, LOWEST, line_bases, result_copier
from ..primitives.top_k.ranks import best_of_block, best_of_lanes
from ..primitives.top_k.sizes import SIZES

load_pair, store_pair = unit_access(16)


@cache
def best_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that finds the best element of lines whose elements are neighbours, a block for each part."""
    access = key_access(width, infinity)
    key_at, bests_of_quads, best_inside = access.key_at, access.bests_of_quads, access.best_inside
    best_of_quad, load_quad, copy_result = access.best_of_quad, access.load_quad, result_copier(width)
    key, lowest = key_type(width), lowest_key(width)
    of_quad = 16 // width

    def find_best(x, values, indices, plan, found):
        await_inputs()
        keys = cuda.shared.array(ENDS, np.int64)
        quads = cuda.shared.array(ENDS, np.int64)
        thread, threads = np.int64(cuda.threadIdx.x), np.int64(cuda.blockDim.x)
        part = np.int64(cuda.blockIdx.x)
        line = quotient(part, plan, fields.PARTS)
        from_x, to = line_bases(plan, line)
        source = x + from_x
        size = number(plan, fields.SIZE)
        shift = (source & 15) // width  # the first 16 bytes may begin before the line
        begin = (part - line * number(plan, fields.PARTS)) * number(plan, fields.ROUNDS)
        count = min((size + shift + of_quad - 1) // of_quad, begin + number(plan, fields.ROUNDS))
        quad, best = np.int64(END), key(lowest)
        q = begin + thread
        while q < count:
            first = q * of_quad - shift
            address = source + first * width
            if first >= 0 and first + (3 * threads + 1) * of_quad <= size:
                a, b, c, d = bests_of_quads(address, 16 * threads, 32 * threads, plan)
                four = max(max(a, b), max(c, d))
                if four > best or quad == END:
                    best = four
                    quad = q + (0 if a == four else 1 if b == four else 2 if c == four else 3) * threads
                q += 4 * threads
            else:
                whole = first >= 0 and first + of_quad <= size
                one = best_of_quad(load_quad(address), plan) if whole else best_inside(source, plan, first, size)
                if one > best or quad == END:
                    best, quad = one, q
                q += threads
        high, quad = best_of_block(keys, quads, np.int64(best), quad)
        if thread == 0:
            i = np.int64(END)  # of a part without elements
            if quad < END:
                i = max(np.int64(0), quad * of_quad - shift)
                while key_at(source + i * width, plan) != high:
                    i += 1
            if found != 0:
                store_pair(found + 16 * part, high, i)
            else:
                copy_result(values, indices, plan, to, source + i * width, i)

    return Kernel(find_best, 5, waits=True, registers=40)


@cache
def best_by_lanes_kernel(width: int, infinity: int) -> Kernel:
    """Return the kernel that finds the best element of lines of any layout: lanes of a warp share each part of one.

    These are ``2**ROOM``. If a part has one lane, neighbouring lanes have lines that may lie beside each other.
    """
    access = key_access(width, infinity)
    key_at, keys_of, key_in = access.key_at, access.keys_of, access.key_in
    load, copy_result = LOAD_INDEX[f"int{8 * width}"], result_copier(width)
    key, lowest, together = key_type(width), lowest_key(width), SIZES.rows_at_once

    def find_best_by_lanes(x, values, indices, plan, found):
        await_inputs()
        some = cuda.local.array(together, key)
        thread = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        lines, parts, bits = number(plan, fields.LINES), number(plan, fields.PARTS), number(plan, fields.ROOM)
        item, lanes = thread >> bits, np.int64(1) << bits
        lane = thread - (item << bits)
        has_part = item < lines * parts
        item = min(item, lines * parts - 1)  # all lanes of a warp take part
        part = item // lines if parts > 1 else np.int64(0)
        line = item - part * lines
        from_x, to = line_bases(plan, line)
        stride = number(plan, fields.STRIDE)
        begin = part * number(plan, fields.ROUNDS) + lane
        end = min((part + 1) * number(plan, fields.ROUNDS), number(plan, fields.SIZE))
        count = np.int32((end - begin + lanes - 1) >> bits)  # elements of this lane
        address, step = x + from_x + begin * stride, stride << bits
        best, place = key(lowest), np.int32(0)
        i = np.int32(0)
        while i + together <= count:
            for j in range(together):
                some[j] = load(address + j * step)
            for j in range(together):
                one = key_in(keys_of(some[j], plan), 0)
                if one > best:
                    best, place = one, np.int32(i + j)
            address += together * step
            i = np.int32(i + together)
        while i < count:
            one = key_at(address, plan)
            if one > best:
                best, place = one, i
            address += step
            i = np.int32(i + 1)
        position = begin + (np.int64(place) << bits) if count > 0 else np.int64(END)
        high, position = best_of_lanes(np.int64(best), position, lanes)
        if lane == 0 and has_part:
            if found != 0:
                store_pair(found + 16 * (line * parts + part), high, position)
            else:
                copy_result(values, indices, plan, to, x + from_x + position * stride, position)

    # With no limit the compiler takes fewer registers, and loads one by one.
    return Kernel(find_best_by_lanes, 5, waits=True, registers=40 if width < 8 else 48)


@cache
def best_of_few_parts_kernel(width: int) -> Kernel:
    """Return the kernel that finds the best element of lines by the best ones of few parts, a thread for each line."""
    copy_result = result_copier(width)

    def find_best_of_few_parts(x, values, indices, plan, found):
        await_inputs()
        line = np.int64(cuda.blockIdx.x) * BLOCK + np.int64(cuda.threadIdx.x)
        if line >= number(plan, fields.LINES):
            return
        parts = number(plan, fields.PARTS)
        found += 16 * line * parts
        high, i = load_pair(found)
        for part in range(1, parts):
            key, position = load_pair(found + 16 * part)
            if key > high:
                high, i = key, position
        from_x, to = line_bases(plan, line)
        copy_result(values, indices, plan, to, x + from_x + i * number(plan, fields.STRIDE), i)

    return Kernel(find_best_of_few_parts, 5)


@cache
def best_part_kernel(width: int) -> Kernel:
    """Return the kernel that finds the best element of lines by the best ones of their parts, a block for each line."""
    copy_result = result_copier(width)

    def find_best_part(x, values, indices, plan, found):
        await_inputs()
        keys = cuda.shared.array(ENDS, np.int64)
        places = cuda.shared.array(ENDS, np.int64)
        line = np.int64(cuda.blockIdx.x)
        parts = number(plan, fields.PARTS)
        part = np.int64(cuda.threadIdx.x)
        high, i = np.int64(LOWEST), np.int64(END)
        while part < parts:
            key, position = load_pair(found + 16 * (line * parts + part))
            if key > high or i == END:  # a thread meets its parts in their order
                high, i = key, position
            part += np.int64(cuda.blockDim.x)
        high, i = best_of_block(keys, places, high, i)
        if cuda.threadIdx.x == 0:
            from_x, to = line_bases(plan, line)
            copy_result(values, indices, plan, to, x + from_x + i * number(plan, fields.STRIDE), i)

    return Kernel(find_best_part, 5, waits=True)
