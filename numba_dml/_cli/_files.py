"""Arrays in files: .npy and .npz mapped into memory a part at a time, and results that appear whole or not at all.

A mapping is made anew for every part: the pages of the last one are then no longer the process's memory. Elements that
are read out of order come page by page: the system's read-ahead would read megabytes around each of them.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOSPC
from io import BytesIO
from pathlib import Path
from time import localtime
from tokenize import TokenError
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy import ndarray

from .._core.tensor import ml_dtype, product
from . import _terminal

Array = ndarray[Any, Any]
Shape = tuple[int, ...]
Order = Literal["C", "F"]

NEAR = 8  #: pages between two that are needed, which are read with them: one long read takes less time than two
DIRECTORY = 1 << 12  #: bytes behind the arrays of an archive in which its directory has room
CHUNK = 1 << 20  #: bytes of an archive that are read at once
ML_DTYPES = r"bfloat16|float[468]_\w+|u?int[124]"  #: dtypes that NumPy knows only once ml_dtypes is imported


class Source(NamedTuple):
    """An array in a file."""

    name: str
    path: Path
    shape: Shape
    dtype: np.dtype[Any]
    order: Order
    offset: int
    loaded: Array | None = None  #: the array itself, where the file cannot be mapped: it is compressed

    @property
    def nbytes(self) -> int:
        """How many bytes the elements have."""
        return product(self.shape) * self.dtype.itemsize

    def map(self, mode: str = "r", shape: Shape | None = None) -> Array:
        """Return the array; what is read of it is in memory for as long as it lives.

        In another shape its elements are those of the file, one after the other.
        """
        if self.loaded is not None:
            return self.loaded
        shape, order = (self.shape, self.order) if shape is None else (shape, "C")
        if not self.nbytes:
            return np.empty(shape, self.dtype)
        return np.asarray(np.memmap(self.path, self.dtype, mode, self.offset, shape, order))  # type: ignore[call-overload]


def map_pieces(file: Source, starts: Array, size: int, mode: str = "r") -> Array:
    """Return the elements of a file from the first piece to the last, in the order of the file.

    Of each piece `starts` says which element of the file is its first, in ascending order; it has `size` elements. Only
    the pages of pieces are read, all at once where the system can be told.
    """
    first, itemsize = int(starts[0]), file.dtype.itemsize
    count = int(starts[-1]) + size - first
    begin = file.offset + first * itemsize
    before = begin % mmap.ALLOCATIONGRANULARITY
    with file.path.open("rb" if mode == "r" else "r+b") as stream:
        access = mmap.ACCESS_READ if mode == "r" else mmap.ACCESS_WRITE
        mapping = mmap.mmap(stream.fileno(), before + count * itemsize, access=access, offset=begin - before)
    if hasattr(mmap, "MADV_RANDOM"):
        mapping.madvise(mmap.MADV_RANDOM)
        places = (starts - first) * itemsize + before
        pages, ends = places // mmap.PAGESIZE, (places + size * itemsize - 1) // mmap.PAGESIZE + 1
        gaps = np.flatnonzero(pages[1:] > ends[:-1] + NEAR) + 1
        for page, end in zip(pages[np.r_[0, gaps]].tolist(), ends[np.r_[gaps - 1, -1]].tolist(), strict=True):
            mapping.madvise(mmap.MADV_WILLNEED, page * mmap.PAGESIZE, (end - page) * mmap.PAGESIZE)
    return ndarray(count, file.dtype, mapping, before)


def open_source(name: str) -> Source:
    """Return the array that a name says: ``FILE.npy``, ``FILE.npz`` with one array in it, or ``FILE.npz:ARRAY``."""
    file, colon, member = name.partition(".npz:")
    path = Path(f"{file}.npz" if colon else name)
    if path.is_dir():
        raise ValueError(f"{name}: found a directory, expected an .npy or .npz file")
    if path.suffix == ".npz":
        return _member(name, path, member)
    if ".npy:" in name and not path.exists():
        raise ValueError(f"{name}: found an array's name after an .npy file, expected one only after an .npz file")
    if path.suffix != ".npy":
        raise ValueError(f"{name}: found a file that is neither .npy nor .npz, expected one of them")
    return _source(name, path, 0, None)


def _member(name: str, path: Path, member: str) -> Source:
    try:
        with zipfile.ZipFile(path) as archive:
            found = [entry.removesuffix(".npy") for entry in archive.namelist() if entry.endswith(".npy")]
            if not member and len(found) == 1:
                member = found[0]
            if member not in found:
                raise ValueError(
                    f"{name}: found the arrays {', '.join(found) or '(none)'}, expected the name of one: {path}:NAME"
                )
            entry = archive.getinfo(f"{member}.npy")
            if entry.compress_type != zipfile.ZIP_STORED:
                with archive.open(entry) as stream, _as_saved(name):
                    _learn_dtype(stream)
                    array = np.lib.format.read_array(stream)
                return Source(name, path, array.shape, array.dtype, "C", 0, array)
        with path.open("rb") as stream:
            stream.seek(entry.header_offset + 26)
            start = entry.header_offset + 30 + sum(struct.unpack("<HH", stream.read(4)))
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.filename:  # not of what is in the file
            raise
        raise ValueError(f"{name}: {str(error) or 'found its end too early'}, expected an .npz file") from None
    return _source(name, path, start, entry.file_size)


@contextmanager
def _as_saved(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, SyntaxError, TokenError, struct.error) as error:
        raise ValueError(f"{name}: {error}, expected an array as numpy.save writes it") from None


def _source(name: str, path: Path, start: int, length: int | None) -> Source:
    with path.open("rb") as stream:
        stream.seek(start)
        with _as_saved(name):
            shape, fortran, dtype = _header(stream)
        offset = stream.tell()
        end = os.fstat(stream.fileno()).st_size if length is None else start + length
    if dtype.hasobject:
        raise ValueError(f"{name}: found Python objects, expected a fixed-size dtype")
    source = Source(name, path, shape, dtype, "F" if fortran else "C", offset)
    if end - offset < source.nbytes:
        raise ValueError(f"{name}: found {end - offset} bytes of elements, expected {source.nbytes}: it was cut short")
    return source


def _learn_dtype(stream: Any) -> None:
    """Let NumPy know the dtype of an array, if its header has the name of one of ml_dtypes."""
    start = stream.tell()
    found = re.search(f"'descr': '({ML_DTYPES})'".encode(), stream.read(128))
    stream.seek(start)
    if found:
        ml_dtype(found[1].decode())


def _header(stream: BinaryIO) -> Any:
    """Return shape, order and dtype of an array, and leave the stream where its elements begin."""
    _learn_dtype(stream)
    version = np.lib.format.read_magic(stream)
    if version != (3, 0):
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return read(stream)
    # Version 3 is version 2 with names of fields in UTF-8. Only NumPy's private functions read both: as ASCII they come
    # through as escapes, which a literal has too.
    (length,) = struct.unpack("<I", stream.read(4))
    text = stream.read(length).decode("utf-8")
    literal = text.encode("ascii", "backslashreplace")
    return np.lib.format.read_array_header_2_0(BytesIO(struct.pack("<I", len(literal)) + literal))


def _written_header(shape: Shape, dtype: np.dtype[Any], order: str) -> bytes:
    """Return what `_header` reads: NumPy's public functions write no names of fields that are not Latin-1.

    And of dtypes of ml_dtypes they write the size alone, so that bytes come back, or nothing does.
    """
    descr = dtype.name if dtype.type.__module__ == "ml_dtypes" else np.lib.format.dtype_to_descr(dtype)
    about = {"descr": descr, "fortran_order": order == "F", "shape": shape}
    text = repr(about).encode("utf-8")
    before = np.lib.format.magic(2 if text.isascii() else 3, 0)
    padding = -(len(before) + 4 + len(text) + 1) % 64
    return before + struct.pack("<I", len(text) + padding + 1) + text + b" " * padding + b"\n"


class Results:
    """The arrays of a result, in a temporary file beside the one that it becomes when all went well.

    An archive is laid out while arrays are added, so that its arrays are written where they stay; what its entries say
    of them is written last.
    """

    def __init__(self, path: Path, sources: Sequence[Source] = ()) -> None:
        self.place = Path(os.path.realpath(path))  #: the file to write, which is not a link to it
        _terminal.check_place("-o", path, self.place)
        if path.suffix not in (".npy", ".npz"):
            raise ValueError(f"-o: found {path}, expected a name that ends in .npy or .npz (or .zarr, for a store)")
        for source in sources:
            if path.exists() and path.samefile(source.path):
                raise ValueError(f"-o: found {path}, the file of the input {source.name}, expected another one")
        self.path = path
        #: The arrays, in the temporary file; what stands before each; and what an archive says of it.
        self.members: dict[str, Source] = {}
        self.headers: list[bytes] = []
        self.entries: list[zipfile.ZipInfo] = []
        self.end = 0
        self.whole = self.place.with_name(f".{self.place.name}.{os.getpid()}.tmp")

    def __enter__(self) -> Results:
        return self

    def add(self, name: str, shape: Shape, dtype: np.dtype[Any], order: Order = "C") -> None:
        """Say what an array will be."""
        if self.members and self.path.suffix == ".npy":
            raise ValueError(f"-o: found {self.path}, expected a name that ends in .npz: there are several arrays")
        header = _written_header(shape, dtype, order)
        if self.path.suffix == ".npz":
            self.entries.append(_entry(name, self.end))
            header = self.entries[-1].FileHeader(zip64=True) + header
        self.headers.append(header)
        member = self.members[name] = Source(name, self.whole, shape, dtype, order, self.end + len(header))
        self.end = member.offset + member.nbytes

    def make(self) -> None:
        """Make room for the arrays: a disk that is full shall be an error here, not a broken mapping later."""
        room = self.end + DIRECTORY * (self.path.suffix == ".npz")
        with self._room(), self.whole.open("wb") as stream:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(stream.fileno(), 0, room)
            elif shutil.disk_usage(self.whole.parent).free < room:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            else:
                stream.truncate(room)
            for member, header in zip(self.members.values(), self.headers, strict=True):
                stream.seek(member.offset - len(header))
                stream.write(header)

    @contextmanager
    def _room(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # of the file that was asked for, not of one that nobody knows
            needed = _terminal.size(sum(member.nbytes for member in self.members.values()))
            expected = f", expected room for {needed} of {' and '.join(self.members)}" if error.errno == ENOSPC else ""
            raise OSError(error.errno, f"{error.strerror}{expected}", str(self.path)) from None

    def map(self, name: str, shape: Shape | None = None) -> Array:
        """Return an array to write to."""
        return self.members[name].map("r+", shape)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        try:
            if kind is None:
                if self.path.suffix == ".npz":
                    with self._room():
                        self._finish()
                self.whole.replace(self.place)
        finally:
            with suppress(OSError):
                self.whole.unlink()

    def _finish(self) -> None:
        """Write the entries of an archive, and its directory."""
        with self.whole.open("r+b") as stream:
            for entry, member in zip(self.entries, self.members.values(), strict=True):
                start = entry.header_offset + len(entry.FileHeader(zip64=True))
                end = member.offset + member.nbytes
                stream.seek(start)
                for first in range(start, end, CHUNK):
                    entry.CRC = zlib.crc32(stream.read(min(CHUNK, end - first)), entry.CRC)
                entry.file_size = entry.compress_size = end - start
                stream.seek(entry.header_offset)
                stream.write(entry.FileHeader(zip64=True))
            stream.seek(self.end)
            with zipfile.ZipFile(stream, "w") as archive:
                archive.filelist.extend(self.entries)
            stream.truncate()


def _entry(name: str, offset: int) -> zipfile.ZipInfo:
    """Return what an archive says of an array: of whatever length, the elements begin at a multiple of 64 bytes."""
    entry = zipfile.ZipInfo(f"{name}.npy", localtime()[:6])
    entry.header_offset, entry.file_size, entry.compress_size, entry.CRC = offset, 0, 0, 0
    aligned = struct.Struct("<HHH")  # the extra field by which Android's zipalign does it
    padding = -(offset + len(entry.FileHeader(zip64=True)) + aligned.size) % 64
    entry.extra = aligned.pack(0xD935, 2 + padding, 64) + bytes(padding)
    return entry


def fill(source: Source, results: Results, name: str, step: int, advance: Callable[[int], None]) -> None:
    """Copy an array into a result of the same shape, `step` elements at a time."""
    shape = source.shape if source.order == "C" else source.shape[::-1]  # in the order of the file
    for part in blocks(shape, step):
        array, out = (m if source.order == "C" else m.T for m in (source.map(), results.map(name)))
        out[part] = array[part]
        advance(array[part].nbytes)


def blocks(shape: Shape, most: int) -> Any:
    """Yield the slices of parts of a shape in row-major order, each of at most `most` elements, and of at least one."""
    split = 0
    while split < len(shape) - 1 and product(shape[split + 1 :]) > most:
        split += 1
    if not shape:
        yield ()
        return
    step = max(1, most // max(1, product(shape[split + 1 :])))
    rest = tuple(slice(0, size) for size in shape[split + 1 :])
    for lead in np.ndindex(*shape[:split]):
        for start in range(0, shape[split], step):
            yield (*(slice(i, i + 1) for i in lead), slice(start, min(start + step, shape[split])), *rest)
