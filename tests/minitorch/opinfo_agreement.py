"""Agreement with PyTorch on its own samples: value, gradient and second gradient in float64.

The samples are those of `torch.testing._internal.common_methods_invocations.op_db`, which judge
PyTorch itself. An operator takes part when minitorch has its name, on the module or as a method.
"""

import contextlib
import dataclasses
import math
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_utils import set_rng_seed

import minitorch
import minitorch.nn.functional

PLACE = "cpu"
"""The device of minitorch's side; torch's stays on the CPU."""
RTOL, ATOL = 1e-7, 1e-9
"""float64 leaves 1e-16; sums of a few hundred terms and cancellation cost the rest."""


# torch's OpInfo puts the differentiable argument first; these have another one in that place
ARGUMENT_ORDER: dict[str, Callable[..., Any]] = {
    "einsum": lambda operands, equation: minitorch.einsum(equation, *operands),
    "nn.functional.embedding": lambda weight, index, **options: minitorch.nn.functional.embedding(
        index, weight, **options
    ),
    "where": lambda a, condition, b: minitorch.where(condition, a, b),
}

# what cannot be compared number by number, or is not the operator that the name says
RANDOM = {
    "bernoulli", "empty", "empty_like", "multinomial", "new_empty", "nn.functional.dropout",
    "nn.functional.dropout2d",
    "normal", "rand_like", "randint", "randint_like", "randn", "randn_like",
}  # fmt: skip
NOT_OPERATORS = {"item", "to", "zero_"}

OTHER_VARIANTS = {("norm", "nuc")}  # singular values
SIGNS_OPEN = {"linalg.eigh", "linalg.svd"}  # of vectors: torch's samples say what to compare
NO_SECOND = {("linalg.norm", "subgradients_at_zero")}  # torch's are NaN


@dataclasses.dataclass
class Score:
    """How many samples of an operator agree."""

    samples: int = 0
    value: int = 0
    gradients: int = 0
    gradient: int = 0
    seconds: int = 0
    second: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)


def find(name: str) -> Callable[..., Any] | None:
    """Return minitorch's operator of this name, else None."""
    found: Any = minitorch
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None and "." not in name:
        found = getattr(minitorch.Tensor, name, None)
    return found if callable(found) else None


def to_ours(value: Any) -> Any:
    """Return a sample's argument with torch's tensors and dtypes as minitorch's."""
    if isinstance(value, torch.Tensor):
        made = minitorch.tensor(value.detach().numpy().copy(), device=PLACE)
        return made.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(minitorch, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size | tuple | list):
        return type(value)(map(to_ours, value)) if type(value) in (tuple, list) else tuple(value)
    if isinstance(value, dict):
        return {key: to_ours(item) for key, item in value.items()}
    return value


def leaves(value: Any, kind: type) -> Iterator[Any]:
    """Yield every tensor inside a sample's arguments, or a result, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item, kind)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item, kind)


@contextlib.contextmanager
def short_stacks() -> Iterator[None]:
    """Let torch draw samples faster: it writes a stack down three times whenever it is seeded."""
    sys.tracebacklimit = 1
    try:
        yield
    finally:
        del sys.tracebacklimit


def samples_of(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[Any]:
    """Yield what `op.sample_inputs` does, which first goes through all frames and all modules."""
    return _each_from_its_seed(op.sample_inputs_func(op, "cpu", dtype, requires_grad))


def errors_of(op: Any) -> Iterator[Any]:
    """Yield what `op.error_inputs` does, in the same way."""
    return _each_from_its_seed(op.error_inputs_func(op, "cpu"))


def _each_from_its_seed(inputs: Iterable[Any]) -> Iterator[Any]:
    iterator = iter(inputs)
    while True:
        with short_stacks():
            set_rng_seed()
            drawn = next(iterator, None)
        if drawn is None:
            return
        yield drawn


def numbers(value: Any) -> np.ndarray:
    if isinstance(value, torch.Tensor):
        return value.detach().numpy(force=True)
    if isinstance(value, minitorch.Tensor):
        return value.numpy(force=True)
    return np.asarray(value)


def close(ours: Any, theirs: Any) -> str:
    """Return what differs, "" for nothing. Relative to the largest number of the array."""
    a, b = numbers(ours), numbers(theirs)
    if a.shape != b.shape:
        return f"shape {a.shape}, torch {b.shape}"
    if a.dtype != b.dtype:
        return f"dtype {a.dtype}, torch {b.dtype}"
    if a.dtype.kind != "f":
        return "" if np.array_equal(a, b) else f"{a.ravel()[:4]}, torch {b.ravel()[:4]}"
    finite = np.abs(b[np.isfinite(b)])
    floor = ATOL + RTOL * (float(finite.max()) if finite.size else 0.0) * 1e-3
    if np.allclose(a, b, rtol=RTOL, atol=floor, equal_nan=True):
        return ""
    away = ~np.isclose(a, b, rtol=RTOL, atol=floor, equal_nan=True)
    return f"{a[away].ravel()[:3]}, torch {b[away].ravel()[:3]}"


def _differentiable(results: list[Any]) -> list[int]:
    return [i for i, y in enumerate(results) if y.requires_grad and y.is_floating_point()]


def _grads(lib: Any, ys: list[Any], xs: list[Any], weights: list[Any], create: bool) -> list[Any]:
    grad = torch.autograd.grad if lib is torch else minitorch.grad
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shares = grad(ys, xs, weights, create_graph=create, retain_graph=True, allow_unused=True)
    zeros = torch.zeros_like if lib is torch else minitorch.zeros_like
    return [zeros(x) if g is None else g for g, x in zip(shares, xs, strict=True)]


def _first_difference(ours: list[Any], theirs: list[Any]) -> str:
    if len(ours) != len(theirs):
        return f"{len(ours)} results, torch {len(theirs)}"
    return next((d for a, b in zip(ours, theirs, strict=True) if (d := close(a, b))), "")


def judge(op: Any, function: Callable[..., Any], sample: Any, score: Score) -> None:
    """Run one sample through both libraries and add what agrees to `score`."""
    arguments = (sample.input, sample.args, sample.kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs_out = op(sample.input, *sample.args, **sample.kwargs)
        mine = to_ours(list(arguments))
    compared = sample.output_process_fn_grad if op.name in SIGNS_OPEN else lambda result: result
    theirs_out = compared(theirs_out)
    score.samples += 1
    theirs = list(leaves(theirs_out, torch.Tensor))
    try:
        ours_out = compared(function(mine[0], *mine[1], **mine[2]))
        if not theirs:
            problem = "" if ours_out == theirs_out else f"{ours_out}, torch {theirs_out}"
            ours: list[Any] = []
        else:
            ours = list(leaves(ours_out, minitorch.Tensor))
            problem = _first_difference(ours, theirs)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        score.failures.append(f"value: {problem} | {summary(sample)}")
        return
    score.value += 1
    if op.supports_autograd and _differentiable(theirs):
        _judge_gradients(op, arguments, mine, ours, theirs, score, sample)


def _judge_gradients(
    op: Any,
    arguments: Any,
    mine: Any,
    ours: list[Any],
    theirs: list[Any],
    score: Score,
    sample: Any,
) -> None:
    rng = np.random.default_rng(0)
    which = _differentiable(theirs)
    draws = [
        rng.standard_normal(tuple(theirs[i].shape)).astype(numbers(theirs[i]).dtype) for i in which
    ]
    their_x = [x for x in leaves(list(arguments), torch.Tensor) if x.requires_grad]
    our_x = [x for x in leaves(mine, minitorch.Tensor) if x.requires_grad]
    their_g = _grads(
        torch, [theirs[i] for i in which], their_x, list(map(torch.tensor, draws)), True
    )
    score.gradients += 1
    weights = [minitorch.tensor(d, device=PLACE) for d in draws]
    try:
        ys = [ours[i] for i in which]
        plain = _grads(minitorch, ys, our_x, weights, False)
        our_g = _grads(minitorch, ys, our_x, weights, True)
        problem = _first_difference(plain, their_g) or _first_difference(our_g, their_g)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        score.failures.append(f"gradient: {problem} | {summary(sample)}")
        return
    score.gradient += 1
    if op.supports_gradgrad and (op.name, op.variant_test_name) not in NO_SECOND:
        _judge_second(their_x, our_x, their_g, our_g, rng, score, sample)


def _judge_second(
    their_x: Any, our_x: Any, their_g: Any, our_g: Any, rng: Any, score: Score, sample: Any
) -> None:
    which = _differentiable(their_g)
    if not which:
        return
    draws = [rng.standard_normal(tuple(their_g[i].shape)) for i in which]
    try:
        theirs = _grads(
            torch, [their_g[i] for i in which], their_x, list(map(torch.tensor, draws)), False
        )
    except RuntimeError:
        return  # torch itself has no second gradient here
    score.seconds += 1
    try:
        pairs = [
            (our_g[i], minitorch.tensor(d, device=PLACE))
            for i, d in zip(which, draws, strict=True)
            if our_g[i].requires_grad
        ]
        if pairs:
            ys, ws = map(list, zip(*pairs, strict=True))
            ours = _grads(minitorch, ys, our_x, ws, False)
        else:
            ours = [minitorch.zeros_like(x) for x in our_x]
        problem = _first_difference(ours, theirs)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if problem:
        score.failures.append(f"second: {problem} | {summary(sample)}")
    else:
        score.second += 1


def summary(sample: Any) -> str:
    """Return a sample in one line."""

    def short(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        if isinstance(value, tuple | list):
            return f"({', '.join(map(short, value))})"
        return repr(value)

    keywords = "".join(f", {k}={short(v)}" for k, v in sample.kwargs.items())
    return f"{short(sample.input)}, {short(sample.args)}{keywords}"[:160]


def ours(op: Any) -> Callable[..., Any] | None:
    """Return minitorch's function for an OpInfo, None: it has none that can be compared."""
    if op.name in RANDOM | NOT_OPERATORS or (op.name, op.variant_test_name) in OTHER_VARIANTS:
        return None
    if torch.float64 not in op.dtypes:
        return None
    return ARGUMENT_ORDER.get(op.name) or find(op.name)


def refusing(op: Any) -> Callable[..., Any] | None:
    """Return minitorch's function for an OpInfo that has wrong inputs; None: it has neither."""
    if op.error_inputs_func is None or op.name in RANDOM | NOT_OPERATORS:
        return None
    return ARGUMENT_ORDER.get(op.name) or find(op.name)


def run(op: Any, limit: int | None = None) -> Score | None:
    """Return the score of one OpInfo on its samples, thinned evenly to `limit`; None: not ours."""
    function = ours(op)
    if function is None:
        return None
    random.seed(0)  # which margins and the like are drawn from
    torch.default_generator.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(samples_of(op, torch.float64, op.supports_autograd))
    step = max(1, math.ceil(len(samples) / limit)) if limit else 1
    score = Score()
    for sample in samples[::step]:
        if sample.kwargs.get("dropout_p"):
            continue
        judge(op, function, sample, score)
    return score


# inputs that torch refuses and minitorch takes, with the meaning that they plainly have
LENIENT = (
    ("conv", "should be the same"),  # one dtype of several is promoted
    ("max_pool", "Expected 2D or 3D|non-batch dimensions|Expected input's"),  # empty images
    ("linspace", "invalid combination"),  # 3.0 steps are 3
    ("narrow", "0-dim integral"),
    ("roll", "shifts` required"),
)


def lenient(name: str, message: str) -> bool:
    """Tell whether minitorch takes on purpose what torch refuses."""
    return any(part in name and re.search(pattern, message) for part, pattern in LENIENT)


def table(ops: Any, limit: int | None = None) -> tuple[set[str], Score]:
    """Return the names that take part and the sum of their scores, and print what disagrees."""
    total, names = Score(), set()
    for op in ops:
        score = run(op, limit)
        if score is None:
            continue
        names.add(op.name)
        for field in ("samples", "value", "gradients", "gradient", "seconds", "second"):
            setattr(total, field, getattr(total, field) + getattr(score, field))
        total.failures += [f"{op.name}: {failure}" for failure in score.failures]
        if score.failures:
            print(f"{op.name} {op.variant_test_name}: {len(score.failures)} of {score.samples}")
            print(f"    {score.failures[0][:200]}")
    print(f"operators {len(names)}")
    print(f"value           {total.value} of {total.samples}")
    print(f"gradient        {total.gradient} of {total.gradients}")
    print(f"second gradient {total.second} of {total.seconds}")
    return names, total
