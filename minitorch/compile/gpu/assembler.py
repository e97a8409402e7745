"""NVIDIA's own assembler, which needs no device: what a kernel takes, and the instructions it is.

`ptxas` turns PTX into a device's code, and says how many registers and how much memory a kernel
takes; `nvdisasm` prints that code. Both are programs in packages of the index: `pip install
"mlsys-labs[ptxas]"` brings them to Linux on x86-64; a CUDA toolkit has them too.

May import: errors. Source: NVIDIA, PTX ISA 8.8; CUDA Binary Utilities 12.9.
"""

import functools
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ...errors import CompileError

TIMEOUT_S = 300.0  # a kernel takes well under a second; thousands of unrolled lines take some
PLACES = {"ptxas": "cuda_nvcc/bin", "nvdisasm": "cu13/bin"}  # in the packages' folder `nvidia`
PACKAGES = {"ptxas": "nvidia-cuda-nvcc-cu12", "nvdisasm": "nvidia-cuda-nvdisasm"}
KINDS = {
    "fma": ("FFMA", "DFMA"),
    "shared loads": ("LDS",),
    "global loads": ("LDG",),
    "global stores": ("STG",),
    "barriers": ("BAR",),
    "local memory": ("LDL", "STL"),
}


@dataclass(frozen=True)
class Assembled:
    """One kernel, as a device runs it.

    Attributes:
        registers: of a thread.
        shared_bytes: shared memory of a block.
        stack_bytes: of a thread, in local memory.
        spilled_bytes: what a thread writes to memory because registers do not suffice.
    """

    registers: int
    shared_bytes: int
    stack_bytes: int
    spilled_bytes: int


@functools.cache
def program(name: str) -> str:
    """Return the path of "ptxas" or "nvdisasm".

    Raises:
        CompileError: it is neither on the PATH nor in this Python's packages.
    """
    return locate(name, os.environ.get("PATH", ""), Path(sysconfig.get_path("purelib")))


def locate(name: str, path: str, packages: Path) -> str:
    """Return where a program lies, on a search path or in a folder of Python's packages.

    Raises:
        CompileError: it lies in neither.
    """
    packaged = packages / "nvidia" / PLACES[name] / name
    place = shutil.which(name, path=path) or (str(packaged) if packaged.is_file() else None)
    if place is None:
        raise CompileError(
            f"{name}: not found, neither on the PATH nor among Python's packages. "
            f"Next: pip install {PACKAGES[name]} (Linux on x86-64; no device is needed)."
        )
    return place


def available(name: str = "ptxas") -> bool:
    """Tell whether a program of NVIDIA's is here."""
    try:
        program(name)
    except CompileError:
        return False
    return True


def assemble(ptx: str, architecture: str, code: Path | None = None) -> dict[str, Assembled]:
    """Return what each kernel of a module of PTX takes, by name.

    Args:
        ptx: for this architecture or an older one.
        architecture: "sm_75", "sm_80", ...
        code: where to leave the device's code; nowhere if None.
    Raises:
        CompileError: there is no assembler, or it refuses; says what it says.
    """
    with tempfile.TemporaryDirectory(prefix="minitorch-ptx-") as folder:
        source, cubin = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(ptx, encoding="ascii")
        command = [program("ptxas"), "-v", "-arch", architecture, "-o", str(code or cubin)]
        done = subprocess.run(
            [*command, str(source)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    if done.returncode:
        raise CompileError(f"ptxas: {architecture}: {done.stderr.strip() or done.stdout.strip()}")
    return read_report(done.stderr)


ENTRY = re.compile(r"Compiling entry function '(\w+)'")
NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "stack_bytes": re.compile(r"(\d+) bytes stack frame"),
    "spilled_bytes": re.compile(r"(\d+) bytes spill stores"),
}


def read_report(report: str) -> dict[str, Assembled]:
    """Return what `ptxas -v` says of each kernel; a number that it leaves out is 0."""
    _, *parts = ENTRY.split(report)
    names, texts = parts[::2], parts[1::2]
    return {
        name: Assembled(**{key: _number(pattern, text) for key, pattern in NUMBERS.items()})
        for name, text in zip(names, texts, strict=True)
    }


def _number(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.search(text)
    return int(match[1]) if match else 0


def instructions(ptx: str, architecture: str) -> Counter[str]:
    """Return how many instructions of each kind a module's code has, and how many in all.

    The kinds are those of `KINDS`; "all" counts every instruction but padding. An instruction
    counts once, however often it runs.

    Raises:
        CompileError: there is no assembler or no disassembler, or one refuses.
    """
    with tempfile.TemporaryDirectory(prefix="minitorch-ptx-") as folder:
        code = Path(folder, "module.cubin")
        assemble(ptx, architecture, code)
        done = subprocess.run(
            [program("nvdisasm"), "-c", str(code)],
            capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    if done.returncode:
        raise CompileError(f"nvdisasm: {architecture}: {done.stderr.strip()}")
    return count_instructions(done.stdout)


LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)


def count_instructions(listing: str) -> Counter[str]:
    """Return how many instructions of each kind a listing of `nvdisasm` has."""
    names = Counter(name for name in LINE.findall(listing) if name != "NOP")
    counted = Counter({kind: sum(names[name] for name in own) for kind, own in KINDS.items()})
    counted["all"] = names.total()
    return counted
