"""Recurrent layers beside PyTorch's: values, gradients and their gradients, in float64."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
import minitorch.graph as tf
from minitorch import nn
from minitorch.errors import ArgumentError, ModifiedInPlace, ShapeError
from minitorch.sweep import count_uses
from minitorch.tensor.tensor import Tensor, tensor
from minitorch.tracing import jit, trace

KINDS = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]
BATCH, WIDTH, HIDDEN = 3, 4, 5


def both(name: str, dtype: str = "float64", **options: Any) -> tuple[Any, Any]:
    """The same module, with the same numbers, of both libraries."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(WIDTH, HIDDEN, dtype=getattr(torch, dtype), **options)
    ours = getattr(nn, name)(WIDTH, HIDDEN, dtype=dtype, **options)
    ours.load_state_dict({k: tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    return ours, theirs


def drawn(shape: tuple[int, ...], seed: int) -> tuple[Tensor, Any]:
    """The same numbers as a leaf of both libraries."""
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)


def flat(result: Any) -> list[Any]:
    """The outputs and the last states, one after the other."""
    y, last = result
    return [y, *last] if isinstance(last, tuple) else [y, last]


def weighted(results: list[Any], lib: Any) -> Any:
    """A number to which each element contributes another share."""
    total = 0.0
    for i, result in enumerate(results):
        shares = np.random.default_rng(90 + i).standard_normal(tuple(result.shape))
        total = total + (result * lib.tensor(shares)).sum()
    return total


def states_of(name: str, values: Any) -> Any:
    return tuple(values[1:3]) if name == "LSTM" else values[1]


@pytest.mark.parametrize("length", [1, 2, 9])
@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}],
    ids=["plain", "deep in both directions", "without bias"],
)
@pytest.mark.parametrize(("name", "more"), KINDS)
@pytest.mark.parametrize("used", ["all", "outputs", "last states"])
def test_values_and_gradients_are_those_of_torch(
    name: str, more: dict[str, Any], options: dict[str, Any], length: int, used: str
) -> None:
    ours, theirs = both(name, **more, **options)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    pairs = [drawn((length, BATCH, WIDTH), 1)]
    pairs += [drawn((count, BATCH, HIDDEN), 2 + i) for i in range(2 if name == "LSTM" else 1)]
    found = []
    for lib, module, values in zip(
        (minitorch, torch), (ours, theirs), zip(*pairs, strict=True), strict=True
    ):
        results = flat(module(values[0], states_of(name, values)))
        chosen = {"all": results, "outputs": results[:1], "last states": results[1:]}[used]
        weighted(chosen, lib).backward()
        grads = [v.grad for v in (*values, *module.parameters())]
        found.append([r.detach().numpy() for r in results])
        found.append([None if g is None else g.numpy() for g in grads])
    for own, their in zip(found[0] + found[1], found[2] + found[3], strict=True):
        if their is None:
            assert own is None or not own.any()
        else:
            np.testing.assert_allclose(own, their, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("name", "more"), KINDS)
def test_gradients_of_gradients_are_those_of_torch(
    name: str, more: dict[str, Any], bidirectional: bool
) -> None:
    ours, theirs = both(name, bidirectional=bidirectional, num_layers=2, **more)
    pairs = [drawn((6, BATCH, WIDTH), 1)]
    pairs += [drawn((2 * (1 + bidirectional), BATCH, HIDDEN), 2 + i) for i in range(2)]
    second = []
    for lib, module, values in zip(
        (minitorch, torch), (ours, theirs), zip(*pairs, strict=True), strict=True
    ):
        values = values if name == "LSTM" else values[:2]
        inputs = [*values, *module.parameters()]
        total = weighted(flat(module(values[0], states_of(name, values))), lib)
        first = lib.autograd.grad(total, inputs, create_graph=True)
        norm = sum((g * g).sum() for g in first)
        second.append(lib.autograd.grad(norm, inputs, allow_unused=True))
    for own, their in zip(*second, strict=True):
        expected = np.zeros(1) if their is None else their.numpy()
        own = np.zeros(1) if own is None else own.numpy()
        np.testing.assert_allclose(own, expected, rtol=1e-7, atol=1e-11)


def test_gradients_of_gradients_are_those_of_torch_over_torch_arrays(torch_arrays: None) -> None:
    test_gradients_of_gradients_are_those_of_torch("LSTM", {}, bidirectional=True)


def test_a_state_that_depends_on_the_input_is_differentiated_once_along_each_path() -> None:
    ours, theirs = both("GRU")
    x = drawn((4, BATCH, HIDDEN - 1), 1)
    second = []
    for lib, module, value in zip((minitorch, torch), (ours, theirs), x, strict=True):
        wide = lib.cat([value, value[..., :1]], -1)
        total = weighted(flat(module(value, wide[:1])), lib)
        (first,) = lib.autograd.grad(total, [value], create_graph=True)
        second.append(lib.autograd.grad((first * first).sum(), [value])[0].numpy())
    np.testing.assert_allclose(*second, rtol=1e-8)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_what_is_recorded_does_not_grow_with_the_sequence(name: str) -> None:
    module = getattr(nn, name)(WIDTH, HIDDEN, num_layers=2)

    def recorded(length: int) -> int:
        y, _ = module(tensor(np.zeros((length, BATCH, WIDTH), np.float32)))
        return len(count_uses([y], lambda value: value.requires_grad))

    assert recorded(40) == recorded(2)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_large_inputs_saturate_without_a_warning(name: str) -> None:
    ours, theirs = both(name, "float32")
    numbers = 1e4 * np.random.default_rng(0).standard_normal((5, BATCH, WIDTH)).astype(np.float32)
    expected = theirs(torch.tensor(numbers))[0].detach().numpy()
    np.testing.assert_allclose(ours(tensor(numbers))[0].detach().numpy(), expected, atol=1e-6)


def test_outputs_may_be_overwritten_before_backward_and_weights_may_not() -> None:
    ours, theirs = both("LSTM")
    own, their = drawn((6, BATCH, WIDTH), 1)
    for module, value in ((ours, own), (theirs, their)):
        y, _ = module(value)
        y.mul_(2.0)
        (y * y).sum().backward(retain_graph=True)
        (y * y).sum().backward()
    np.testing.assert_allclose(own.grad.numpy(), their.grad.numpy(), rtol=1e-9)
    y, _ = ours(own)
    with minitorch.no_grad():
        ours.weight_hh_l0.mul_(2.0)
    with pytest.raises(ModifiedInPlace, match="recurrence"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("orders", "options"),
    [
        (1, {"num_layers": 2, "batch_first": True}),
        (2, {"bidirectional": True, "bias": False}),
        (2, {"num_layers": 2, "unbatched": True}),
        (3, {}),
    ],
    ids=["deep, batch first", "both directions, without bias", "unbatched", "third"],
)
@pytest.mark.parametrize(("name", "more"), KINDS)
def test_a_compiled_layer_gives_the_same_values_and_gradients_of_any_order(
    name: str, more: dict[str, Any], orders: int, options: dict[str, Any]
) -> None:
    batch = () if options.get("unbatched") else (BATCH,)
    options = {key: value for key, value in options.items() if key != "unbatched"}
    module, _ = both(name, **more, **options)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shapes = [(5, *batch, WIDTH)] + [(count, *batch, HIDDEN)] * (2 if name == "LSTM" else 1)
    leaves = [drawn(shape, i)[0] for i, shape in enumerate(shapes)]

    def step(*values: Any) -> Any:
        x = values[0].transpose(0, 1) if options.get("batch_first") else values[0]
        total = weighted(flat(module(x, states_of(name, values))), minitorch)
        inputs = [*values, *module.parameters()]
        for _ in range(orders - 1):
            grads = minitorch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
            total = sum((grad * grad).mean() for grad in grads if grad is not None)
        total.backward()
        return total

    found: list[Any] = []
    for function in (step, jit(step)):
        total = function(*leaves)
        grads = [value.grad for value in (*leaves, *module.parameters())]
        found.append([total.item(), *(0 if grad is None else grad.numpy() for grad in grads)])
        for value in leaves:
            value.grad = None
        module.zero_grad()
    for own, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, own, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_each_executor_runs_a_layer_there_and_back(name: str) -> None:
    module, _ = both(name, bidirectional=True)
    x, _ = drawn((7, BATCH, WIDTH), 1)
    traced = trace(lambda value: (module(value)[0] ** 2).sum())(x)
    module(x)[0].square().sum().backward()
    leaves = {traced.inputs[0]: x}
    leaves |= {node: leaf for node, leaf in traced.captured.items() if leaf.requires_grad}
    with traced.graph.as_default():
        by = tf.gradients(traced.outputs, [*leaves])
        for executor in ("compiled", "interpreter", "tokens"):
            with tf.Session(executor=executor) as session:
                session.run(tf.initialize_all_variables())
                found = session.run(by, {traced.inputs[0]: x.detach().numpy()})
            for grad, leaf in zip(found, leaves.values(), strict=True):
                np.testing.assert_allclose(grad, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_graph_does_not_grow_with_the_sequence(name: str) -> None:
    module = getattr(nn, name)(WIDTH, HIDDEN, num_layers=2)

    def nodes(length: int) -> int:
        traced = trace(lambda value: module(value)[0].sum())(minitorch.zeros(length, 1, WIDTH))
        return len(traced.graph.nodes)

    assert nodes(40) == nodes(2)


def test_a_sequence_without_recording_gives_the_same_outputs() -> None:
    module = nn.LSTM(WIDTH, HIDDEN, bidirectional=True)
    x = tensor(np.random.default_rng(0).standard_normal((7, BATCH, WIDTH)).astype(np.float32))
    with minitorch.no_grad():
        quiet, _ = module(x)
    assert not quiet.requires_grad
    np.testing.assert_array_equal(quiet.numpy(), module(x)[0].detach().numpy())


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_sequence_of_no_steps_is_refused(name: str) -> None:
    ours, theirs = both(name)
    with pytest.raises(ShapeError, match=rf"^{name}: got a sequence of no steps, expected 1"):
        ours(tensor(np.zeros((0, BATCH, WIDTH))))
    with pytest.raises(RuntimeError, match="sequence length"):
        theirs(torch.zeros(0, BATCH, WIDTH, dtype=torch.float64))


def run_packed(
    library: Any, name: str, lengths: list[int], with_state: bool, **options: Any
) -> list[Any]:
    """Return what a network makes of packed sequences, and all gradients."""
    rng = np.random.default_rng(0)
    network = getattr(library.nn, name)(3, 4, num_layers=2, **options).double()
    with library.no_grad():
        for param in network.parameters():
            param.copy_(library.tensor(rng.normal(size=tuple(param.shape)) * 0.4))
    rnn = library.nn.utils.rnn
    x = [library.tensor(rng.normal(size=(n, 3)), requires_grad=True) for n in lengths]
    shape = (4 if options.get("bidirectional") else 2, len(lengths), 4)
    state = library.tensor(rng.normal(size=shape), requires_grad=True)
    first = () if not with_state else ((state, state * 2),) if name == "LSTM" else (state,)
    in_order = lengths == sorted(lengths, reverse=True)
    packed = rnn.pack_sequence(x, enforce_sorted=in_order)
    out, last = network(packed, *first)
    padded, sizes = rnn.pad_packed_sequence(out, padding_value=0.5, total_length=7)
    ends = last if name == "LSTM" else (last,)
    values = [packed.data, packed.batch_sizes, out.data, padded, sizes, *ends]
    total = (padded.tanh() ** 2).sum() + sum((end**2).sum() for end in ends)
    total.backward()
    inputs = [*network.parameters(), *x, *([state] if with_state else [])]
    grads = [each.grad for each in inputs]
    return [np.asarray(value.detach().numpy()) for value in (*values, *grads)]


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [2, 5, 1, 5], [4]], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_give_torchs_outputs_states_and_gradients(
    name: str, lengths: list[int], bidirectional: bool
) -> None:
    for with_state in (False, True):
        ours, theirs = (
            run_packed(library, name, lengths, with_state, bidirectional=bidirectional)
            for library in (minitorch, torch)
        )
        for got, expected in zip(ours, theirs, strict=True):
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_a_padded_batch_is_packed_and_padded_again_and_wrong_lengths_are_refused() -> None:
    results = []
    for library in (minitorch, torch):
        rnn = library.nn.utils.rnn
        x = library.arange(24.0).reshape(2, 4, 3)
        packed = rnn.pack_padded_sequence(
            x, library.tensor([2, 4]), batch_first=True, enforce_sorted=False
        )
        results.append([packed.data.tolist(), packed.sorted_indices.tolist()])
        results[-1] += [rnn.pad_packed_sequence(packed, batch_first=True)[0].tolist()]
        with pytest.raises((RuntimeError, ValueError), match=r"sort|first"):
            rnn.pack_padded_sequence(x, [2, 4], batch_first=True)
        with pytest.raises(ValueError, match="total_length"):
            rnn.pad_packed_sequence(packed, total_length=3)
    assert results[0] == results[1]
    for lengths in ([4, 0], [4], [5, 4], [2.5, 1.0]):
        with pytest.raises(ArgumentError, match="from 1 to 4"):
            nn.utils.rnn.pack_padded_sequence(minitorch.ones(2, 4, 3), lengths, batch_first=True)
    narrow = nn.utils.rnn.pack_padded_sequence(minitorch.ones(4, 2, 3), [4, 2])
    with pytest.raises(ShapeError, match=r"^LSTM: got input \(6, 3\), expected"):
        nn.LSTM(5, 2)(narrow)


def test_a_cell_asks_for_as_many_states_as_it_has() -> None:
    x, h = minitorch.ones(2, 3), minitorch.ones(2, 4)
    with pytest.raises(ShapeError, match="LSTMCell: got a state of shapes"):
        nn.LSTMCell(3, 4)(x, h)
    with pytest.raises(ShapeError, match="GRUCell: got a state of shapes"):
        nn.GRUCell(3, 4)(x, (h, h))
