"""Compiled kernels kept on disk, so that a process runs what an earlier one compiled.

LLVM takes longer to start than most programs' first step. A kernel is one function that calls
nothing, so its object file is linked here: sections one after another, and what refers from one to
another filled in. That is mapped as it lies, without LLVM. Only x86-64 on Linux; elsewhere, and
where nothing can be written, kernels are compiled anew in each process.

A file is `MAGIC`, where the function begins, a digest of what follows, and the code. Its name is a
digest of the kernel's text, the processor and the compiler.

May import: nothing of ours. Source: System V ABI, AMD64 supplement, section 4.4 (relocations).
"""

import contextlib
import functools
import hashlib
import importlib.util
import mmap
import os
import platform
import struct
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

MAGIC = b"kernel01"
HEAD = struct.Struct("<8sq32s16x")  # 64 bytes, so that constants stay aligned
MOST = 8192  # files, some 4 KiB each; beyond it the half goes that was used longest ago
ALLOCATED, WRITABLE = 2, 1  # flags of a section
PROGBITS, SYMBOLS, RELOCATIONS, EMPTY = 1, 2, 4, 8  # types of sections
RELATIVE = (2, 4)  # R_X86_64_PC32 and PLT32: symbol + addend - place, in 32 bits


class Code(NamedTuple):
    """Code that can be called.

    Attributes:
        address: of the function.
        memory: what has to live as long as it is called.
    """

    address: int
    memory: object


class Section(NamedTuple):
    """The head of a section of an object file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


@functools.cache
def directory() -> Path | None:
    """Return where kernels are kept; None where they are not."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        home = Path.home()
    except RuntimeError:  # an account without a home
        return None
    return home / ".cache" / "minitorch" / "code" if home.is_dir() else None


@functools.cache
def processor_fields() -> dict[str, str]:
    """Return what the system says of the first processor; nothing where it says nothing."""
    try:
        with Path("/proc/cpuinfo").open() as file:
            first = file.read(2**14).partition("\n\n")[0]
    except OSError:
        return {}
    fields = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}


@functools.cache
def _maker() -> str:
    """Return what the code depends on besides the text: the processor and the compiler."""
    spec = importlib.util.find_spec("llvmlite")
    origin = spec.origin if spec and spec.origin else ""
    written = Path(origin).stat().st_mtime_ns if origin else 0
    names = ("vendor_id", "cpu family", "model", "flags")
    return repr([origin, written, *map(processor_fields().get, names)])


def _path(text: str) -> Path | None:
    folder = directory()
    if folder is None or not processor_fields().get("flags"):
        return None
    return folder / hashlib.blake2b((_maker() + text).encode(), digest_size=20).hexdigest()


def load(text: str) -> Code | None:
    """Return the code that was kept of this text, if any was."""
    path = _path(text)
    try:
        if path is None or path.stat().st_uid != os.getuid():
            return None
        with path.open("rb") as file:
            with contextlib.suppress(OSError):  # a home that cannot be written to
                os.utime(path)  # it was used now
            memory = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    except (OSError, ValueError):  # not there; empty; a file system without programs
        return None
    magic, entry, digest = HEAD.unpack(memory[: HEAD.size].ljust(HEAD.size))
    if magic != MAGIC or digest != hashlib.sha256(memory[HEAD.size :]).digest():
        return None
    array = np.frombuffer(memory, np.uint8)
    return Code(array.ctypes.data + HEAD.size + entry, array)


def keep(text: str, object_file: bytes, name: str) -> Code | None:
    """Keep the code of an object file, and return it; None where that cannot be."""
    import tempfile

    path, linked = _path(text), link_code(object_file, name)
    if path is None or linked is None:
        return None
    code, entry = linked
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        forget_half(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(HEAD.pack(MAGIC, entry, hashlib.sha256(code).digest()) + code)
        Path(file.name).replace(path)
    except OSError:
        return None
    return load(text)


def forget_half(folder: Path, most: int = MOST) -> None:
    """Delete the half of the files that was used longest ago, where there are `most`."""
    with os.scandir(folder) as entries:  # paths of thousands of files would take milliseconds
        files = list(entries)
    if len(files) >= most:
        for file in sorted(files, key=lambda file: file.stat().st_mtime)[: most // 2]:
            Path(file).unlink(missing_ok=True)


def link_code(data: bytes, name: str) -> tuple[bytes, int] | None:
    """Return an object file's code and constants as one piece, and where a function begins in it.

    None where it needs something from outside: another function, or memory to write to.
    """
    at, size, count = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HH", data, 0x3A)
    sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", data, at + i * size))
                for i in range(count)]  # fmt: skip
    image, places = bytearray(), dict[int, int]()
    for i, section in enumerate(sections):
        if (
            not section.flags & ALLOCATED
            or not section.size
            or section.kind not in (PROGBITS, EMPTY)
        ):
            continue
        if section.flags & WRITABLE or section.kind == EMPTY:
            return None
        image += bytes(-len(image) % max(section.alignment, 1))
        places[i] = len(image)
        image += data[section.offset : section.offset + section.size]
    (table,) = (s for s in sections if s.kind == SYMBOLS)
    symbols = list(struct.iter_unpack("<IBBHQQ", data[table.offset : table.offset + table.size]))
    if not _relocate(image, data, sections, places, symbols):
        return None
    strings = sections[table.link].offset
    for title, _, _, section_number, value, _ in symbols:
        end = data.index(b"\0", strings + title)
        if section_number in places and data[strings + title : end] == name.encode():
            return bytes(image), places[section_number] + value
    return None


def _relocate(
    image: bytearray, data: bytes, sections: list[Section], places: dict[int, int],
    symbols: list[tuple[int, ...]],
) -> bool:  # fmt: skip
    """Fill in the distances between what refers and what is meant; False if one is unknown."""
    for section in sections:
        if section.kind != RELOCATIONS or section.info not in places:
            continue
        entries = data[section.offset : section.offset + section.size]
        for offset, info, addend in struct.iter_unpack("<QQq", entries):
            symbol, kind = symbols[info >> 32], info & 0xFFFFFFFF
            if kind not in RELATIVE or symbol[3] not in places:
                return False
            place = places[section.info] + offset
            meant = places[symbol[3]] + symbol[4] + addend
            struct.pack_into("<i", image, place, meant - place)
    return True
