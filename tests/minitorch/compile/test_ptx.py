"""The text for GPUs: it compiles for every row, and says what the processor's code says."""

import re

import pytest

from minitorch.compile import ROWS, Program, Step, gives, takes
from minitorch.compile.engine import assembly
from minitorch.compile.gpu.ptx import TRIPLE, module
from minitorch.compile.rows import arity
from minitorch.errors import CompileError


def ptx(program: Program, kinds: str = "", processor: str = "sm_80") -> str:
    return assembly(module(program, kinds or "c" * len(program.inputs)), TRIPLE, processor)


LIBRARY = {"pow", "sin", "cos"}


def program(row: str, dtype: str = "float32") -> Program:
    count = arity(row)
    kinds = tuple(takes(row, i) for i in range(count))
    return Program(dtype, kinds, (Step(row, tuple(range(count))),))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", sorted({*ROWS} - LIBRARY))
def test_every_row_compiles_to_ptx(row: str, dtype: str) -> None:
    text = ptx(program(row, dtype))
    assert ".visible .entry kernel(" in text
    size = "8" if gives(row) == "bool" else "32" if dtype == "float32" else "64"
    assert re.search(rf"st\.global\.[bfu]{size}", text)


def test_a_chain_reads_each_input_once_and_stores_once() -> None:
    steps = (Step("mul", (0, 1)), Step("add", (-1, 2)), Step("relu", (-2,)), Step("tanh", (-3,)))
    text = ptx(Program("float32", ("float",) * 3, steps), "ccb", "sm_90")
    assert ".target sm_90" in text
    assert len(re.findall(r"ld\.global", text)) == 3
    assert len(re.findall(r"st\.global", text)) == 1
    assert "fma.rn.f32" in text  # of the polynomials
    assert "mul.rn.f32" in text  # of the program itself, which is not contracted
    assert "call" not in re.sub(r"//.*", "", text)  # nothing is left to a library


def test_what_threads_would_have_to_do_together_is_refused() -> None:
    task = Program("float32", ("float",), (Step("neg", (0,)),), "sum")
    with pytest.raises(CompileError, match="got reduction 'sum'"):
        ptx(task)
    with pytest.raises(CompileError, match="no code for abacus"):
        assembly(module(program("neg"), "c"), "abacus")
    for step in (Step("sin", (0,)), Step("power", (0,), 1.7)):
        with pytest.raises(CompileError, match=f"{step.row} calls the C library"):
            ptx(Program("float32", ("float",), (step,)))
    assert "sqrt" in ptx(Program("float32", ("float",), (Step("power", (0,), 0.5),)))
