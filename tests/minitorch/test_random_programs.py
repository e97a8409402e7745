"""Random programs of methods beside PyTorch: dtypes, views, and updates in place of either.

A program is a list of Python statements over tensors `t0`, `t1`, ...; both libraries run it. After
each statement every tensor is compared, so an update that shows where it should not, or does not
show where it should, is found at once. `WIDE=1` draws 40 times as many; a program is its seed.
"""

import os
import re
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import ShapeError

BATCHES = 20
PROGRAMS = 800 if os.environ.get("WIDE") else 20
STATEMENTS = 12

DTYPES = ["bool", "uint8", "int32", "int64", "float32", "float64"]
REFUSALS = (ArithmeticError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)
Rng = np.random.Generator

UNARY = """
abs() neg() sign() square() relu() exp() sin() tanh() sigmoid() sqrt() reciprocal() floor()
ceil() trunc() round() isnan() isfinite() logical_not() clone() detach() contiguous()
ravel() flatten() squeeze() t() sum() mean() prod() amax() amin() any() all() argmax()
argmin() max() min() var() std() norm() nonzero() count_nonzero() logsumexp(0) cumsum(0)
cumprod(0) sum(-1) mean(0) mean(-1,keepdim=True) amax(-1) prod(0) sort(-1)[0] sort(0)[1]
softmax(-1) log_softmax(0) unsqueeze(0) unsqueeze(-1) transpose(0,-1) flip(0) roll(1,0)
tril() triu() diagonal() expand(2,-1) bool() int() long() float()
double() to(lib.uint8) tile(2) repeat_interleave(2,0) median() max(-1)[1] std(0) reshape(-1)
view(-1) clamp(0,2) clamp(min=-1) permute(-1,0) movedim(0,-1) bitwise_not() unbind(0)[0]
split(1)[-1] chunk(2)[0] narrow(0,0,1) select(0,-1) data
unfold(0,2,2) unfold(-1,1,2)
"""
BINARY = "+ - * / // % ** < <= == != >= > & | ^ @"
METHODS = """
sub(a,alpha=2) sub(a) mul(a) div(a) div(a,rounding_mode='floor') maximum(a) minimum(a)
pow(a) remainder(a) atan2(a) eq(a) gt(a) logical_and(a) logical_or(a) logical_xor(a)
where(a>0,a) masked_fill(a>0,1) expand_as(a) type_as(a) xlogy(a)
lerp(a,0.5) masked_select(a>0) allclose(a) isclose(a) matmul(a) outer(a) dot(a)
addcmul(a,a)
"""
INPLACE = """
add_(a) sub_(a) mul_(a) div_(a) copy_(a) fill_(3) zero_() neg_() abs_() clamp_(0,2) exp_()
add_(2) mul_(2) add_(1.5) sub_(1,alpha=2) masked_fill_(a>0,1) relu_() sqrt_() floor_()
pow_(2) remainder_(3) tril_() logical_not_() sigmoid_() square_()
index_add_(0,i,a) clamp_min_(1) reciprocal_() round_() trunc_() lerp_(a,0.5) addcmul_(a,a)
"""
SIGNS = "+ - * / // % ** & | ^"
SCALARS = ["2", "-1", "0.5", "3", "True", "1.5", "0"]
INDICES = [
    "0",
    "-1",
    "...",
    "0:1",
    "::2",
    "None",
    ":, 0",
    "..., -1",
    "[0, -1]",
    "0, [0]",
    "..., None",
    "True",
    "i",
    "x > 0",
]


def initial(rng: Rng) -> str:
    """A statement's right side that makes a tensor."""
    shape = [int(n) for n in rng.integers(1, 4, rng.integers(3))]
    dtype = str(rng.choice(DTYPES))
    low = 0 if dtype in ("bool", "uint8") else -3
    numbers = rng.integers(low, 4, shape)
    if "float" in dtype:
        numbers = numbers + rng.integers(0, 4, shape) / 4
    return f"lib.tensor({numbers.tolist()}, dtype=lib.{dtype})"


def statement(rng: Rng, count: int) -> str:
    """A random statement over the tensors t0 to t(count-1)."""
    x, a = (f"t{int(n)}" for n in rng.integers(count, size=2))
    a = str(rng.choice(SCALARS)) if rng.random() < 0.25 else a
    match int(rng.integers(9)):
        case 0 | 1:
            text = f"t{count} = x.{rng.choice(UNARY.split())}"
        case 2:
            text = f"t{count} = {rng.choice(['x', 'x', 'x', 'a'])} {rng.choice(BINARY.split())} a"
        case 3:
            text = f"t{count} = x.{rng.choice(METHODS.split())}"
        case 4 | 5:
            text = f"t{count} = x[{rng.choice(INDICES)}]"
        case 6:
            text = f"x.{rng.choice(INPLACE.split())}"
        case 7:
            text = f"x {rng.choice(SIGNS.split())}= a"
        case _:
            text = f"x[{rng.choice(INDICES)}] = a + 0"  # a copy: overlaps mean nothing in PyTorch
    return re.sub(r"\ba\b", a, re.sub(r"\bx\b", x, text))


class Run:
    """A program as one library runs it."""

    def __init__(self, lib: Any) -> None:
        self.names = {"lib": lib, "i": lib.tensor([0])}
        self.tensor = lib.Tensor

    def step(self, text: str) -> None:
        exec(text, self.names)

    def tensors(self) -> dict[str, Any]:
        found = {k: v for k, v in self.names.items() if isinstance(v, self.tensor)}
        return {name: value.detach().numpy().copy() for name, value in found.items()}


def tame(tensors: dict[str, Any]) -> bool:
    """Whether all numbers can be any dtype: what becomes of others is the processor's choice."""
    return all(
        np.isfinite(v).all() and np.abs(v * 1.0).max(initial=0) < 1e4 for v in tensors.values()
    )


def differ(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return any(not np.array_equal(a[name], b[name]) for name in a)


def check(seed: int) -> None:
    """Run one program on both."""
    rng = np.random.default_rng(seed)
    theirs, ours = Run(torch), Run(minitorch)
    lines: list[str] = []
    single = False
    for n in range(STATEMENTS):
        count = sum(name.startswith("t") for name in theirs.names)
        text = f"t{n} = {initial(rng)}" if n < 3 else statement(rng, count)
        before = theirs.tensors()
        try:
            theirs.step(text)
        except REFUSALS:
            if differ(before, theirs.tensors()):
                return  # refused half way
            continue
        expected = theirs.tensors()
        if not tame(expected):
            return
        lines.append(text)
        case = f"seed {seed}:\n" + "\n".join(lines)
        try:
            ours.step(text)
        except ShapeError as error:
            assert "clone()" in str(error), case  # some writes to an expanded tensor
            return
        except Exception as error:
            raise AssertionError(f"{case}\n{type(error).__name__}: {error}") from error
        got = ours.tensors()
        single = single or any(value.dtype == np.float32 for value in expected.values())
        close = 1e-5 if single else 1e-12
        assert got.keys() == expected.keys(), case
        for name, value in expected.items():
            assert got[name].dtype == value.dtype, (
                f"{case}\n{name}: {got[name].dtype}, {value.dtype}"
            )
            np.testing.assert_allclose(
                got[name], value, rtol=close, atol=close, err_msg=f"{case}\n{name}"
            )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_programs_do_what_they_do_in_pytorch(batch: int) -> None:
    for seed in range(batch * PROGRAMS, (batch + 1) * PROGRAMS):
        check(seed)
