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
from .engine import assembly
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
    return assembly(module(program, kinds), TRIPLE, processor)


def module(program: Program, kinds: str = "") -> str:
    """Return the LLVM IR of a program for a GPU.

    Raises:
        CompileError: the program reduces, which threads would have to do together, or has a row
            that calls the C library.
        ArgumentError: a step is no row, or has other operands than it takes.
    """
    rows.check(program)
    kinds = kinds or "c" * len(program.inputs)
    if program.reduction or len(kinds) != len(program.inputs) or set(kinds) - set("cb"):
        raise CompileError(
            f"ptx: got reduction {program.reduction!r} and kinds {kinds!r}, expected none, and "
            f"{len(program.inputs)} of 'c' and 'b'. Reduce in a kernel of its own."
        )
    for step in program.steps:
        if not rows.on_gpus(step):
            raise CompileError(f"ptx: {step.row} calls the C library. Leave it to PyTorch.")
    t = Text(program.dtype, width=1)
    masks = [kind == "bool" for kind in (*program.inputs, rows.gives(program.steps[-1].row))]
    elements = ["i8" if mask else t.scalar for mask in masks]
    tid, ntid, ctaid = (special(t, name) for name in ("tid", "ntid", "ctaid"))
    i = t.plus(t.times(ctaid, ntid), tid)
    with t.when(t.emit(f"icmp slt i64 {i}, %n")):  # threads past the end do nothing
        values = []
        for k, layout in enumerate(kinds):
            at = _place(t, elements[k], k, i if layout == "c" else "0")
            value = t.emit(f"load {elements[k]}, ptr addrspace(1) {at}")
            values.append(t.emit(f"icmp ne i8 {value}, 0") if masks[k] else value)
        result = rows.write(t, program, values)
        if masks[-1]:
            result = t.emit(f"zext i1 {result} to i8")
        at = _place(t, elements[-1], len(kinds), i)
        t.do(f"store {elements[-1]} {result}, ptr addrspace(1) {at}")
    t.do("ret void")
    bases = "".join(f", ptr addrspace(1) %base{k}" for k in range(len(masks)))
    head = t.module(f"define ptx_kernel void @kernel(i64 %n{bases})")
    return f'target triple = "{TRIPLE}"\n\n{head}'


def special(t: Text, name: str) -> str:
    """Return a special register, as 64 bits: "tid", "ntid" or "ctaid"."""
    t.declared.add(f"declare i32 @{SPECIAL}.{name}.x()")
    return t.emit(f"zext i32 {t.emit(f'call i32 @{SPECIAL}.{name}.x()')} to i64")


def _place(t: Text, element: str, k: int, i: str) -> str:
    return t.emit(f"getelementptr {element}, ptr addrspace(1) %base{k}, i64 {i}")
