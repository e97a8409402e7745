"""Eager, symbolic and compiled agree for every operator, in values and gradients.

The operators and their samples are those on which the eager side is judged against PyTorch. One
sample of each by default, all of them with WIDE=1. An operator whose result's shape depends on
numbers cannot be symbolic; those are counted, so that their number cannot grow unnoticed.
"""

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
import minitorch.graph as tf
from minitorch.errors import MinitorchError
from minitorch.graph.core.node import Node, build
from minitorch.graph.core.order import schedule
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.passes.fused import Fused
from minitorch.op import Op

pytestmark = pytest.mark.as_built

WIDE = os.environ.get("WIDE") == "1"
RTOL, ATOL = 1e-9, 1e-11  # float64; vector functions differ from NumPy's in the last bits

SHARES = 12  # of the operators: a test for each operator would read PyTorch's table to be collected


class Everything(Fixed):
    """A machine on which kernels cost nothing, so that all that can be a kernel is one."""

    smallest = 0

    def _kernel(self, row: str) -> tuple[float, float, float]:
        return 0.0, 0.0, 0.0


class Symbols:
    """A sample's arguments with a placeholder for each tensor."""

    def __init__(self) -> None:
        self.feeds: dict[Node, Any] = {}
        self.wanted: list[Node] = []

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            array = value.detach().numpy()
            node = tf.placeholder(array.dtype, array.shape)
            self.feeds[node] = array
            if value.requires_grad:
                self.wanted.append(node)
            return node
        if isinstance(value, torch.dtype):
            return getattr(minitorch, str(value).removeprefix("torch."))
        if isinstance(value, torch.Size | tuple | list):
            return (
                type(value)(map(self.of, value)) if type(value) in (tuple, list) else tuple(value)
            )
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        return value


def eager(function: Any, sample: Any, agreement: Any) -> tuple[list[Any], list[Any]]:
    """Values and gradients of the sum of the floating results."""
    mine = agreement.to_ours([sample.input, sample.args, sample.kwargs])
    found = list(agreement.leaves(function(mine[0], *mine[1], **mine[2]), minitorch.Tensor))
    wanted = [x for x in agreement.leaves(mine, minitorch.Tensor) if x.requires_grad]
    ends = [y for y in found if y.requires_grad and y.is_floating_point()]
    grads = [None] * len(wanted)
    if ends and wanted:
        ones = [minitorch.ones_like(y) for y in ends]
        grads = minitorch.grad(ends, wanted, ones, allow_unused=True)
    return found, list(grads)


def symbolic(name: str, function: Any, sample: Any, agreement: Any) -> Any:
    """The nodes of values and gradients, and the feeds; None where there is no symbolic form."""
    symbols = Symbols()
    arguments = [symbols.of(v) for v in (sample.input, sample.args, sample.kwargs)]
    if function is getattr(minitorch.Tensor, name, None):
        function = getattr(Node, name, None)
    try:
        found = list(agreement.leaves(function(arguments[0], *arguments[1], **arguments[2]), Node))
        ends = [y for y in found if y.dtype.kind == "f"]
        grads = tf.gradients(ends, symbols.wanted) if ends and symbols.wanted else []
    except (MinitorchError, TypeError, ValueError, AttributeError, IndexError):
        return None
    return (found, grads, symbols.feeds) if found else None


def numbers(value: Any) -> Any:
    return value.numpy(force=True) if isinstance(value, minitorch.Tensor) else np.asarray(value)


def differs(got: Any, want: Any) -> str:
    a, b = numbers(got), numbers(want)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype} {a.shape} is not {b.dtype} {b.shape}"
    floor = ATOL * max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)))
    same = np.allclose(a, b, rtol=RTOL, atol=floor, equal_nan=True)
    return "" if same else f"{a.ravel()[:4]} is not {b.ravel()[:4]}"


def ways(nodes: list[Node], feeds: dict[Node, Any]) -> dict[str, list[Any]]:
    """The values by every way of running the nodes."""
    found = {}
    for name in ("compiled", "interpreter", "tokens"):
        with tf.Session(executor=name) as session:
            found[name] = session.run(nodes, feeds)
    with tf.Session(optimize=True) as session:
        found["optimized"] = session.run(nodes, feeds)
    longer = [node * 0.5 + 0.25 if node.dtype.kind == "f" else node for node in nodes]
    with use(Everything()):
        kernels = tf.optimize(longer, list(feeds))
    with tf.Session() as session:
        values = session.run(kernels, feeds)
    found["kernels"] = [
        (np.asarray(v) - 0.25) / 0.5 if node.dtype.kind == "f" else v
        for v, node in zip(values, nodes, strict=True)
    ]
    return found


def in_graphs(op: Any, agreement: Any) -> Iterator[tuple[Any, Any]]:
    """Give samples, each with its parts in a graph of its own; None where it has no such form."""
    torch.default_generator.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(agreement.samples_of(op, torch.float64, op.supports_autograd))
    for sample in samples if WIDE else samples[len(samples) // 2 :][:1]:
        tf.reset_default_graph()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            parts = symbolic(op.name, agreement.ours(op), sample, agreement)
            yield sample, None if sample.kwargs.get("dropout_p") else parts


def judge(op: Any, agreement: Any) -> list[str]:
    """Return what disagreed."""
    problems = []
    for sample, parts in in_graphs(op, agreement):
        if parts is not None:
            values, grads = eager(agreement.ours(op), sample, agreement)
            problems += _compared(parts, values, grads, agreement.summary(sample))
    return problems


def _compared(parts: Any, values: list[Any], grads: list[Any], where: str) -> list[str]:
    nodes, slopes, feeds = parts
    pairs = [(n, v) for n, v in zip(nodes, values, strict=True)]
    pairs += [
        (s, g) for s, g in zip(slopes, grads, strict=False) if s is not None and g is not None
    ]
    wanted = [n for n, _ in pairs]
    problems = []
    for way, got in ways(wanted, feeds).items():
        for a, (node, want) in zip(got, pairs, strict=True):
            problem = differs(a, want)
            if problem:
                problems.append(f"{way}: {node.name}: {problem} | {where}")
    return problems


@pytest.fixture(scope="session")
def ops(op_db: list[Any], agreement: Any) -> list[Any]:
    """The operators that take part."""
    return [op for op in op_db if agreement.ours(op)]


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_way_of_running_an_operator_agrees(
    share: int, ops: list[Any], agreement: Any
) -> None:
    found = {(op.name, op.variant_test_name): judge(op, agreement) for op in ops[share::SHARES]}
    assert found
    assert {name: problems for name, problems in found.items() if problems} == {}


# they make values of nothing but sizes, give truth values or need numbers
WITHOUT_FORM = {
    "allclose", "arange", "equal", "eye", "full", "full_like", "linspace", "narrow", "new_full",
    "new_ones", "new_zeros", "nn.functional.instance_norm", "nn.functional.max_pool1d",
    "nn.functional.max_pool2d", "ones", "ones_like", "unique", "zeros", "zeros_like",
}  # fmt: skip


def test_nearly_all_operators_have_a_symbolic_form(ops: list[Any], agreement: Any) -> None:
    without = set()
    for op in ops[:: 1 if WIDE else 5]:
        forms = [parts for _, parts in in_graphs(op, agreement)]
        if forms and all(parts is None for parts in forms):
            without.add(op.name)
    assert without <= WITHOUT_FORM, sorted(without - WITHOUT_FORM)


def test_kernels_take_part() -> None:
    x = tf.placeholder(tf.float64, (3,))
    with use(Everything()):
        node = tf.optimize(tf.exp(x) * 0.5 + 0.25)
    assert isinstance(node.op, Fused)
    assert node.op.least is not None
    assert len([n for n in schedule([node], ()) if n.op is not None]) == 1


def test_an_operator_that_computes_something_else_in_a_graph_is_found_out(
    op_db: list[Any], agreement: Any
) -> None:
    class Two(Op):
        """exp eagerly, exp times 1.0005 symbolically."""

        def compute(self, xp: Any, x: Any) -> Any:
            return xp.exp(x)

        def infer(self, *specs: Any) -> Any:
            return specs[0]

    def function(x: Any) -> Any:
        return build(Two(), (x,)) * 1.0005 if isinstance(x, Node) else Two()(x)

    op = next(op for op in op_db if op.name == "exp")
    sample = next(iter(op.sample_inputs("cpu", torch.float64)))
    parts = symbolic("exp", function, sample, agreement)
    values, _ = eager(function, sample, agreement)
    assert len(_compared(parts, values, [], "")) == 5


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens", "arena"])
@pytest.mark.parametrize("label", [-1, 3, 2**40])
def test_a_label_that_is_no_class_is_an_error_in_the_loss_and_in_a_step(
    executor: str, label: int
) -> None:
    labels = tf.placeholder(tf.int64, [2])
    w = tf.Variable(np.ones((2, 3), np.float32))
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=w * 1.0)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session(optimize=True, executor=executor) as session:
        session.run(w.initializer)
        for fetch in (loss, step):
            with pytest.raises(MinitorchError, match=rf"got label {label}, expected 0 to 2.*\.py:"):
                session.run(fetch, {labels: [0, label]})
        assert session.run(w).tolist() == [[1.0] * 3] * 2
        session.run(step, {labels: [0, 2]})
