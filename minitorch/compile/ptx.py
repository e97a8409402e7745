"""The same programs as PTX, the assembly of NVIDIA's GPUs: one thread an element.

The instructions of an operator are written by the same functions as for the processor; only the
loops differ. What is here is the text; `cuda_driver` loads and launches it, and tests run the very
same instructions on the processor, thread by thread.

    .visible .entry kernel(.param .u64 n, .param .u64 input_0, ..., .param .u64 result)

May import: errors, text, rows, program, engine.
"""

from __future__ import annotations

import re

from ..errors import CompileError
from . import rows
from .engine import assembly_for
from .program import Program
from .text import Text

TRIPLE = "nvptx64-nvidia-cuda"
SPECIAL = "llvm.nvvm.read.ptx.sreg"


def ptx(program: Program, kinds: str = "", processor: str = "sm_80") -> str:
    """Return the PTX of a program on arrays that lie in one run, or are one element.

    Args:
        kinds: for each input "c" for an array, "b" for one element; arrays unless given.
        processor: the architecture, "sm_80" for Ampere.
    Raises:
        CompileError: the program reduces; the processor is none; or llvmlite, or its NVPTX
            backend, is missing.
    """
    if not re.fullmatch(r"sm_[0-9]+a?", processor):
        raise CompileError(
            f"ptx: got processor {processor!r}, expected an architecture. Write 'sm_80', say."
        )
    return assembly_for(module(program, kinds), TRIPLE, processor)


def module(program: Program, kinds: str = "") -> str:
    """Return the LLVM IR of a program for a GPU.

    Raises:
        CompileError: the program reduces, which threads would have to do together.
        ArgumentError: a step is no row, or has other operands than it takes.
    """
    rows.check(program)
    kinds = kinds or "c" * len(program.inputs)
    if program.reduction or len(kinds) != len(program.inputs) or set(kinds) - set("cb"):
        raise CompileError(
            f"ptx: got reduction {program.reduction!r} and kinds {kinds!r}, expected none, and "
            f"{len(program.inputs)} of 'c' and 'b'. Reduce in a kernel of its own."
        )
    t = Text(program.dtype, width=1)
    types = [*program.inputs, rows.gives(program.steps[-1].row)]
    _thread(t)
    values = [_loaded(t, k, types[k], kind) for k, kind in enumerate(kinds)]
    result = rows.write(t, program, values)
    _stored(t, len(kinds), types[-1], result)
    return _text(t, len(types))


def _text(t: Text, count: int) -> str:
    places = "".join(f", ptr addrspace(1) %base{k}" for k in range(count))
    special = "\n".join(f"declare i32 @{SPECIAL}.{name}.x()" for name in ("tid", "ntid", "ctaid"))
    declared = "\n".join([*sorted(t.declared), *t.defined.values()])
    body = "\n".join(t.lines)
    return (
        f'target triple = "{TRIPLE}"\n\n{special}\n{declared}\n\n'
        f"define ptx_kernel void @kernel(i64 %n{places}) {{\n{body}\n}}\n"
    )


def _thread(t: Text) -> None:
    """Find this thread's element; threads past the end do nothing."""
    t.label("entry")
    for name in ("tid", "ntid", "ctaid"):
        t.do(f"%{name} = call i32 @{SPECIAL}.{name}.x()")
        t.do(f"%wide.{name} = zext i32 %{name} to i64")
    t.do("%first = mul i64 %wide.ctaid, %wide.ntid")
    t.do("%i = add i64 %first, %wide.tid")
    t.do("%inside = icmp slt i64 %i, %n")
    t.do("br i1 %inside, label %compute, label %done")
    t.label("compute")


def _loaded(t: Text, k: int, kind: str, layout: str) -> str:
    element = "i8" if kind == "bool" else t.scalar
    place = "%i" if layout == "c" else "0"
    t.do(f"%at{k} = getelementptr {element}, ptr addrspace(1) %base{k}, i64 {place}")
    value = t.emit(f"load {element}, ptr addrspace(1) %at{k}")
    return t.emit(f"icmp ne i8 {value}, 0") if kind == "bool" else value


def _stored(t: Text, k: int, kind: str, value: str) -> None:
    element = "i8" if kind == "bool" else t.scalar
    if kind == "bool":
        value = t.emit(f"zext i1 {value} to i8")
    t.do(f"%at{k} = getelementptr {element}, ptr addrspace(1) %base{k}, i64 %i")
    t.do(f"store {element} {value}, ptr addrspace(1) %at{k}")
    t.do("br label %done")
    t.label("done")
    t.do("ret void")
