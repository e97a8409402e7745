"""`trace` and `jit`: the graph of imperative code does what the code does."""

import copy
import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from operator import methodcaller
from typing import Any

import numpy as np
import pytest
import torch

import minitorch as mt
import minitorch.graph as tf
from minitorch import Op, Tensor, nn
from minitorch.errors import (
    ArgumentError,
    DTypeError,
    GradientError,
    GraphError,
    NoGradientRule,
    ShapeError,
)
from minitorch.graph import jit, trace
from minitorch.nn import functional as F

pytestmark = pytest.mark.as_built

RNG = np.random.default_rng(0)


def array(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def agrees(got: Any, want: Any, rtol: float = 1e-5) -> None:
    """Check nested results: numbers, dtypes and whether a gradient is followed."""
    if isinstance(want, Tensor):
        assert got.dtype == want.dtype
        assert tuple(got.shape) == tuple(want.shape)
        assert got.requires_grad == want.requires_grad
        np.testing.assert_allclose(
            got.detach().numpy(), want.detach().numpy(), rtol=rtol, atol=rtol
        )
    elif isinstance(want, dict):
        assert got.keys() == want.keys()
        for name in want:
            agrees(got[name], want[name], rtol)
    elif isinstance(want, list | tuple):
        assert type(got) is type(want)
        for a, b in zip(got, want, strict=True):
            agrees(a, b, rtol)
    else:
        assert got == want


class Residual(nn.Module):
    """A convolution around itself, with a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.conv(x))).mean((2, 3))


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 4)
        self.cell = kind(4, 5, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.cell(self.embed(tokens))[0].sum(1)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.LayerNorm(6), nn.Linear(6, 3)),
        lambda: mt.tensor(array(5, 8)),
    ),
    "cnn": (
        lambda: nn.Sequential(Residual(), nn.Linear(3, 2)),
        lambda: mt.tensor(array(4, 3, 6, 6)),
    ),
    "pool": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.BatchNorm2d(4, momentum=None),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Softmax(1),
        ),
        lambda: mt.tensor(array(2, 2, 8, 8)),
    ),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: mt.tensor([[1, 2, 3], [4, 0, 10]])),
    "gru": (lambda: Recurrent(nn.GRU), lambda: mt.tensor([[1, 2, 3], [4, 0, 10]])),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        lambda: mt.tensor(array(2, 5, 8)),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_module_gives_the_same_values_gradients_and_buffers(name: str) -> None:
    make, example = MODELS[name]
    mt.manual_seed(1)
    eager, x = make(), example()
    mt.manual_seed(1)
    ours = make()
    compiled = jit(ours)
    for _ in range(2):
        want, got = eager(x), compiled(x)
        agrees(got, want)
        (want * want).sum().backward()
        (got * got).sum().backward()
    for (key, a), b in zip(ours.named_parameters(), eager.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5), key
    agrees(dict(ours.state_dict()), dict(eager.state_dict()))
    assert len(compiled.traces) == 1


def test_training_through_jit_follows_torch() -> None:
    x, y = array(16, 8), RNG.integers(0, 3, 16)
    net = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
    theirs = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in net.state_dict().items()})
    opt = mt.optim.Adam(net.parameters(), lr=0.05)
    their_opt = torch.optim.Adam(theirs.parameters(), lr=0.05)
    step = jit(lambda x, y: F.cross_entropy(net(x), y))
    for _ in range(20):
        opt.zero_grad()
        their_opt.zero_grad()
        loss = step(mt.tensor(x), mt.tensor(y))
        their_loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        their_loss.backward()
        opt.step()
        their_opt.step()
        assert loss.item() == pytest.approx(their_loss.item(), rel=1e-4)
    assert len(step.traces) == 1


def pieces(x: Tensor) -> Any:
    first, *rest = x.split(1, dim=0)
    return {"sum": first.sum(), "rest": [r * 2 for r in rest], "shape": x.shape, "none": None}


def masks(x: Tensor) -> Tensor:
    n = x.shape[-1]
    mask = mt.ones(n, n).tril().bool()
    scores = x.unsqueeze(-1) * x.unsqueeze(-2)
    return scores.masked_fill(mask.logical_not(), float("-inf")).softmax(-1)


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y += 1
    y[0, 1:3] = x[1, :2] * 3
    y.mul_(2).clamp_(-3, 3)
    z = mt.zeros_like(y) + y
    z[:, 0] = 7
    return z.relu_()


def mixed(x: Tensor) -> Any:
    half = x.to(mt.float64) / 3
    count = (x > 0).sum()
    return half + x, count, x.argmax(1), (x * 2 + count) ** 2, 1 - x, x / np.float64(2)


def indexed(x: Tensor) -> Any:
    order = x[:, 0].argsort()
    return x[order], x[..., -1], x[:, None], x[mt.tensor([0, 1]), mt.tensor([1, 0])], -x.T


def stopped(x: Tensor) -> Any:
    with mt.no_grad():
        scale = x.abs().max()
    return x / scale, x.detach() * x, scale


def unpacked(x: Tensor) -> Any:
    values, indices = x.max(dim=1)
    a, b = x[0], x[1]
    return values, indices, a @ b, [row.sum() for row in x], f"{x.shape}"


FUNCTIONS = [pieces, masks, in_place, mixed, indexed, stopped, unpacked]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_function_of_tensors_gives_the_same(function: Any, requires_grad: bool) -> None:
    numbers = array(3, 4)
    inputs = [mt.tensor(numbers, requires_grad=requires_grad) for _ in range(2)]
    want, got = function(inputs[0]), jit(function)(inputs[1])
    agrees(got, want)
    if requires_grad:
        ends = [[], []]
        for result, end in zip((want, got), ends, strict=True):
            flat = (
                result.values()
                if isinstance(result, dict)
                else (result if isinstance(result, tuple) else [result])
            )
            end += [r for r in flat if isinstance(r, Tensor) and r.requires_grad]
        for end in ends:
            sum((e * e).sum() for e in end).backward()
        agrees(inputs[1].grad, inputs[0].grad)


def test_arguments_may_be_nested_and_named_and_python_values_are_fixed() -> None:
    @jit
    def f(pair: Any, *, options: Any, power: int = 2) -> Any:
        return {"out": (pair[0] - pair[1]) ** power * options["scale"]}

    a, b, s = (mt.tensor(array(3)) for _ in range(3))
    agrees(f((a, b), options={"scale": s})["out"], (a - b) ** 2 * s)
    agrees(f((a, b), options={"scale": s}, power=3)["out"], (a - b) ** 3 * s)
    assert len(f.traces) == 2


def test_traces_are_kept_by_shape_dtype_and_mode() -> None:
    calls = []

    @jit
    def f(x: Tensor) -> Tensor:
        calls.append(x.shape)
        return x * 2

    for x in (array(3), array(3), array(4), array(3).astype(np.float64), array(3)):
        f(mt.tensor(x))
    assert calls == [(3,), (4,), (3,)]
    net = nn.Dropout(0.5)
    compiled, x = jit(net), mt.ones(200)
    assert (compiled(x).numpy() == 0).any()
    net.eval()
    agrees(compiled(x), x)
    assert len(compiled.traces) == 2


def test_a_compiled_module_is_still_a_module_to_those_who_ask() -> None:
    net = nn.Linear(3, 2)
    compiled = jit(net)
    assert [name for name, _ in compiled.named_parameters()] == ["weight", "bias"]
    assert compiled.eval() is net
    assert "jit of Linear" in repr(compiled)
    with pytest.raises(AttributeError, match="wieght"):
        compiled.wieght  # noqa: B018
    assert copy.deepcopy(compiled)(mt.ones(1, 3)).shape == (1, 2)


def test_a_trace_inside_a_trace_is_a_graph_of_its_own() -> None:
    inner = []

    def f(x: Tensor) -> Tensor:
        inner.append(trace(lambda y: y * 3)(mt.ones(2)))
        return x + 1

    agrees(jit(f)(mt.ones(2)), mt.ones(2) + 1)
    agrees(inner[0](mt.ones(2)), mt.ones(2) * 3)


def test_dropout_draws_anew_and_as_eager_code_does() -> None:
    x = mt.ones(50, requires_grad=True)
    compiled = jit(lambda x: F.dropout(x, 0.5) * 3)
    mt.manual_seed(4)
    want = [F.dropout(x, 0.5) * 3 for _ in range(2)]
    mt.manual_seed(4)
    got = [compiled(x) for _ in range(2)]
    agrees(got, want)
    got[1].sum().backward()
    agrees(x.grad, want[1].detach())  # where the output is 0 the gradient is 0


def test_tensors_from_outside_are_read_at_each_call() -> None:
    w, scale = mt.tensor([1.0, 2.0], requires_grad=True), mt.tensor(3.0)
    compiled = jit(lambda x: x * w.t() * scale + (scale + 1))
    x = mt.tensor([1.0, 1.0])
    agrees(compiled(x), x * w * 3 + 4)
    with mt.no_grad():
        w.mul_(10)
        scale.fill_(5)
    agrees(compiled(x), x * w * 5 + 6)


class Holder:
    """An object with a tensor, a number and a list for attributes."""

    def __init__(self) -> None:
        self.weight, self.factor, self.parts = mt.tensor([1.0, 2.0]), 2.0, [mt.ones(2)]

    def scaled(self, x: Tensor) -> Tensor:
        return x * self.weight * self.factor * self.parts[0]


class Scaled(nn.Module):
    """A module with attributes that are no parameters; counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.factor, self.shift, self.calls = 2.0, mt.ones(2), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.factor + self.shift


HELD: dict[str, Any] = {"weight": mt.tensor([1.0, 2.0]), "rows": [mt.ones(2)], "factor": 2.0}
WEIGHT = mt.tensor([1.0, 2.0])


def uses_held(x: Tensor) -> Tensor:
    return x * HELD["weight"] * HELD["rows"][0] * HELD["factor"] * WEIGHT


def test_tensors_and_numbers_in_containers_and_attributes_are_found_anew() -> None:
    x, held, module = mt.tensor([1.0, 1.0]), Holder(), Scaled()
    functions = [uses_held, held.scaled, lambda x: x * held.weight * held.parts[0], module]
    compiled = [jit(function) for function in functions]

    def agree() -> None:
        for function, fast in zip(functions, compiled, strict=True):
            agrees(fast(x), function(x))

    agree()
    for space, name in [
        (HELD, "weight"),
        (HELD, "factor"),
        (HELD["rows"], 0),
        (globals(), "WEIGHT"),
    ]:
        space[name] = space[name] * 3
        agree()
    for item, name in [(held, "weight"), (held, "factor"), (module, "factor"), (module, "shift")]:
        setattr(item, name, getattr(item, name) * 3)
        agree()
    held.parts[0] = mt.tensor([5.0, 7.0])
    agree()


class Configured(nn.Module):
    """A module whose result depends on lists, dicts, sets, functions and what is not there yet."""

    bonus = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.widths, self.settings, self.skipped = [1.0, 2.0], {"inner": {"scale": 2.0}}, set[int]()
        self.functions, self.function, self.cap = [mt.tanh], mt.relu, None

    def forward(self, x: Tensor) -> Tensor:
        for i, width in enumerate(self.widths):
            x = x if i in self.skipped else x * width
        for function in (*self.functions, self.function):
            x = function(x)
        x = x if self.cap is None else x * self.cap
        return x * self.settings["inner"]["scale"] * self.bonus * SCALE


CHANGES: dict[str, Callable[[Any], object]] = {
    "a list's item": lambda m: m.widths.__setitem__(0, 5.0),
    "a list that grows": lambda m: m.widths.append(3.0),
    "a list that shrinks": lambda m: m.widths.pop(),
    "another list": lambda m: setattr(m, "widths", [4.0]),
    "a dict in a dict": lambda m: m.settings["inner"].update(scale=9.0),
    "a set": lambda m: m.skipped.add(1),
    "a function in a list": lambda m: m.functions.__setitem__(0, mt.relu),
    "a function": lambda m: setattr(m, "function", mt.tanh),
    "None before": lambda m: setattr(m, "cap", 3.0),
    "of the class before": lambda m: setattr(m, "bonus", 7.0),
    "a global of forward": lambda m: m.forward.__globals__.update(SCALE=5.0),
}


@pytest.mark.parametrize("owner", ["module", "object", "inner jit"])
@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_what_a_function_goes_by_is_noticed(
    what: str, owner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    x, module = mt.tensor([1.0, 2.0]), Configured()
    held: Any = module
    function: Any = module if owner == "module" else jit(module)
    if owner == "object":
        held = types.SimpleNamespace(**vars(module), bonus=1.0, forward=module.forward)
        function = lambda x: Configured.forward(held, x)  # noqa: E731
    compiled = jit(function if owner != "inner jit" else lambda x: function(x) * 1.0)
    agrees(compiled(x), Configured.forward(held, x))
    CHANGES[what](held)
    agrees(compiled(x), Configured.forward(held, x))


def test_what_lies_beside_a_step_causes_no_further_trace() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model, self.losses, self.epoch = nn.Linear(2, 1), [0.0], 0
            self.step = jit(self._step)

        def _step(self, x: Tensor) -> Tensor:
            TRACED.append(x)
            return self.model(x).sum()

        def fit(self) -> None:
            for _ in range(3):
                self.epoch += 1
                self.losses.append(self.step(mt.ones(3, 2)).item())

    before = len(TRACED)
    Trainer().fit()
    assert len(TRACED) == before + 1


TRACED: list[Tensor] = []


def test_what_a_function_counts_is_traced_once_more_and_found_not_to_matter() -> None:
    module = Scaled()
    compiled = jit(module)
    for n in (2, 3, 2, 2, 3, 3, 2):
        compiled(mt.ones(n) if n == 2 else mt.ones(n, 2))
    assert module.calls == 4


SCALE = 2.0
NET: Any = None


def uses_globals(x: Tensor) -> Tensor:
    return NET(x) * SCALE


def test_what_a_function_reaches_is_traced_anew_when_it_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = uses_globals.__globals__
    x = mt.ones(2, 3)
    monkeypatch.setitem(here, "NET", nn.Sequential(nn.Linear(3, 2), nn.Dropout(1.0)))
    compiled = jit(uses_globals)
    assert (compiled(x) == 0).all()
    here["NET"].eval()
    agrees(compiled(x), uses_globals(x))
    here["NET"][0].weight = nn.Parameter(mt.ones(2, 3))
    agrees(compiled(x), uses_globals(x))
    here["NET"][0] = nn.Linear(3, 4)
    agrees(compiled(x), uses_globals(x))
    monkeypatch.setitem(here, "SCALE", -1.0)
    agrees(compiled(x), uses_globals(x))
    monkeypatch.setitem(here, "NET", nn.Linear(3, 1))
    agrees(compiled(x), uses_globals(x))


def test_methods_and_partial_functions_are_compiled_with_what_they_hold() -> None:
    class Model:
        def __init__(self) -> None:
            self.net, self.calls = nn.Linear(2, 2), 0

        def loss(self, x: Tensor) -> Tensor:
            self.calls += 1
            return self.net(x).square().mean()

        @jit
        def decorated(self, x: Tensor) -> Tensor:
            return self.net(x) * 2

    model, x = Model(), mt.ones(3, 2)
    want = model.loss(x)
    compiled = jit(model.loss)
    for _ in range(3):
        agrees(compiled(x), want)
    assert model.calls == 3  # once eager, twice traced
    agrees(model.decorated(x), model.net(x) * 2)
    power = jit(functools.partial(lambda n, x: x**n, 3))
    agrees(power(x * 2), (x * 2) ** 3)


def test_updates_in_place_of_arguments_are_made_at_each_call() -> None:
    compiled, given = jit(lambda x: x.mul_(2).sum()), mt.ones(2)
    assert [compiled(given).item() for _ in range(2)] == [4, 8]
    assert given.tolist() == [4, 4]


def test_updates_of_tensors_from_outside_are_made_at_each_call() -> None:
    state, weight = mt.ones(2), mt.ones(2, requires_grad=True)

    numbers = np.zeros(2, np.float32)

    def filled(x: Tensor) -> Tensor:
        out = mt.from_numpy(numbers)
        out[0] = x.sum()
        return out

    def stepped(x: Tensor) -> Tensor:
        with mt.no_grad():
            weight.sub_(0.1 * x)
        return weight.sum()

    compiled = jit(stepped)
    np.testing.assert_allclose([compiled(mt.ones(2)).item() for _ in range(2)], [1.8, 1.6])
    assert [jit(lambda x: state.add_(x))(mt.ones(2)).tolist() for _ in range(2)] == [[2, 2], [3, 3]]
    assert state.tolist() == [3, 3]
    with pytest.raises(GraphError, match=r"numbers that something else holds.*test_trace.py"):
        jit(filled)(mt.ones(2))
    agrees(mt.compile(filled)(mt.ones(2)), filled(mt.ones(2)))  # as it is, since it is not traced


def test_second_derivatives_pass_through() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return (x * w).sin().sum() * w.sum()

    numbers = array(4), array(4)
    found = []
    for function in (f, jit(f)):
        x, w = (mt.tensor(n, requires_grad=True) for n in numbers)
        (dx,) = mt.grad(function(x, w), [x], create_graph=True)
        (dx * dx).sum().backward()
        found.append((x.grad, w.grad))
    agrees(found[1], found[0], rtol=1e-4)
    jitted = jit(lambda x: (x.tanh() * x).sum())
    mt.gradcheck(jitted, [mt.tensor(array(3).astype(np.float64), requires_grad=True)])


def test_a_gradient_can_be_taken_inside() -> None:
    def penalty(x: Tensor) -> Tensor:
        (dx,) = mt.grad((x**3).sum(), [x], create_graph=True)
        return (dx**2).sum()

    inputs = [mt.tensor([1.0, 2.0], requires_grad=True) for _ in range(2)]
    want, got = penalty(inputs[0]), jit(penalty)(inputs[1])
    agrees(got, want)
    want.backward()
    got.backward()
    agrees(inputs[1].grad, inputs[0].grad)


def test_several_outputs_share_one_way_back_and_unused_ones_count_nothing() -> None:
    numbers = array(3)
    grads = []
    for wrap in (lambda f: f, jit):
        x = mt.tensor(numbers, requires_grad=True)
        a, b, _ = wrap(lambda x: (x * 2, x.exp(), x.sin()))(x)
        (a.sum() + (b * b).sum()).backward()
        grads.append(x.grad)
    agrees(grads[1], grads[0])


def test_equal_gradients_do_not_share_memory() -> None:
    a, b = (mt.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    jit(lambda a, b: (a + b).sum())(a, b).backward()
    a.grad.numpy()[0] = 9
    assert b.grad.numpy().tolist() == [1, 1]


def test_a_learners_operator_is_traced_with_its_gradient() -> None:
    class Cube(Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return x**3

        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad * 3 * node.inputs[0] ** 2

    class Blind(Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return x + 1

    x = mt.tensor([1.0, -2.0], requires_grad=True)
    jit(lambda x: Cube()(x).sum())(x).backward()
    assert x.grad.numpy().tolist() == [3, 12]
    with pytest.raises(NoGradientRule, match="Blind"):
        jit(lambda x: Blind()(x).sum())(x).backward()


NEED_NUMBERS = {
    "allclose", "equal",  # give a Python bool
    "linspace", "tensor_split",  # some samples say by a tensor how many, or where
    "unique",  # as many as there are distinct numbers
}  # fmt: skip


PARTS = 20  # of the operators: none of the tests takes long


def traceable(agreement: Any) -> list[tuple[Any, Any]]:
    """The operators that take part, each with its function."""
    from torch.testing._internal.common_methods_invocations import op_db

    left_out = agreement.RANDOM | agreement.NOT_OPERATORS | NEED_NUMBERS
    found = []
    for op in op_db:
        function = agreement.ARGUMENT_ORDER.get(op.name) or agreement.find(op.name)
        variant = (op.name, op.variant_test_name)
        if function is None or op.name in left_out or variant in agreement.OTHER_VARIANTS:
            continue
        if torch.float64 in op.dtypes:
            found.append((op, function))
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator_agrees_with_torch_when_it_is_traced(agreement: Any, part: int) -> None:
    """One sample of each: value, gradient and second gradient."""
    score = agreement.Score()
    operators = traceable(agreement)
    assert len(operators) >= 200
    for op, function in operators[part::PARTS]:
        grads = op.supports_autograd
        sample = next(agreement.samples_of(op, torch.float64, grads))
        agreement.judge(op, jit(function, optimize=False), sample, score)
    assert score.value == score.samples == len(operators[part::PARTS]), score.failures
    assert (score.gradient, score.second) == (score.gradients, score.seconds), score.failures


def test_the_number_of_elements_that_a_mask_picks_may_vary() -> None:
    compiled = jit(lambda x: (x[x > 0] * 2, x.masked_select(x < 0).sum()))
    for numbers in ([1.0, -2.0, 3.0], [-1.0, -2.0, 3.0]):
        x = mt.tensor(numbers, requires_grad=True)
        picked, rest = compiled(x)
        agrees(picked, x[x > 0] * 2)
        (picked.sum() + rest).backward()
        assert x.grad.tolist() == [2.0 if n > 0 else 1.0 for n in numbers]
    assert len(compiled.traces) == 1


ENDS = mt.tensor([True, False, True])
JOINED: dict[str, Callable[[Tensor], Tensor]] = {
    "before all": lambda x: mt.cat([x[x > 0], x]),
    "behind all": lambda x: mt.cat([x * 2, x[x > 0]]),
    "beside others": lambda x: mt.cat([x[x > 0], x, x[x < 0] * 3]),
    "added at known places": lambda x: x.index_add(0, mt.arange(2), x[ENDS] * 3),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", JOINED)
def test_gradients_of_what_a_mask_picks_are_of_its_own_place(name: str, inside: bool) -> None:
    def f(x: Tensor) -> Any:
        joined = JOINED[name](x)
        loss = (joined * joined).sum()
        return mt.grad(loss, x)[0] if inside else loss

    for numbers in ([1.0, -2.0, 3.0], [-1.0, -2.0, 3.0]):
        grads = []
        for function in (f, jit(f)):
            x = mt.tensor(numbers, requires_grad=True)
            grads.append(function(x) if inside else mt.grad(function(x), x)[0])
        agrees(*grads)


# ── control flow ────────────────────────────────────────────────────────────────────────────────


def branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    return -x


def count(x: Tensor) -> Tensor:
    for _ in range(x.sum().long()):
        x = x * 2
    return x


def until(x: Tensor) -> Tensor:
    while x.sum() < 10:
        x = x * 2
    return x


def read(x: Tensor) -> Tensor:
    return x * x.max().item()


def to_numpy(x: Tensor) -> Any:
    return np.exp(x.numpy())


def number(x: Tensor) -> Tensor:
    return x * float(x.sum())


@pytest.mark.parametrize(
    ("function", "line", "advice"),
    [
        (branch, "if x.sum() > 0:", "graph.cond"),
        (count, "for _ in range(x.sum().long()):", "while_loop"),
        (until, "while x.sum() < 10:", "while_loop"),
        (read, "return x * x.max().item()", "Return it"),
        (to_numpy, "return np.exp(x.numpy())", "Return it"),
        (number, "return x * float(x.sum())", "Return it"),
    ],
    ids=lambda p: getattr(p, "__name__", None),
)
def test_what_needs_a_number_names_its_line_and_says_what_to_write(
    function: Any, line: str, advice: str
) -> None:
    for operation in (jit, trace):
        with pytest.raises(GraphError) as caught:
            operation(function)(mt.tensor(array(3)))
        message = str(caught.value)
        number = function.__code__.co_firstlineno
        assert line in message
        assert advice in message
        assert any(f"{__file__}:{number + i} " in message for i in range(1, 4))
    assert mt.ones(2).sum().item() == 2  # and eager code is eager again


def test_cond_and_while_loop_mean_the_same_traced_and_eager() -> None:
    w = mt.tensor(2.0, requires_grad=True)

    def f(x: Tensor) -> Tensor:
        x = tf.cond(x.sum() > 0, lambda: x * w, lambda: x - w)
        _, x = tf.while_loop(
            lambda i, x: (x * x).sum() < 100, lambda i, x: [i + 1, x * w], [mt.tensor(0), x]
        )
        return x

    compiled = jit(f)
    for numbers in ([1.0, 0.5], [-3.0, 0.5], [50.0, 50.0]):
        grads = []
        for function in (f, compiled):
            w.grad = None
            x = mt.tensor(numbers, requires_grad=True)
            result = function(x)
            result.sum().backward()
            grads.append((result.detach(), x.grad, w.grad))
        agrees(grads[1], grads[0])
    assert len(compiled.traces) == 1


def test_backward_inside_goes_through_branches_and_loops() -> None:
    w = mt.tensor([1.0, 2.0], requires_grad=True)

    def f(x: Tensor) -> Tensor:
        def repeated(i: Tensor, total: Tensor) -> list[Tensor]:
            total += x  # no leaf, though a placeholder
            total = total * w
            total[0] *= 2
            return [i + 1, total]

        y = tf.cond(x.sum() > 0, lambda: x * w, lambda: x - w)
        _, y = tf.while_loop(lambda i, _: i < 3, repeated, [mt.tensor(0), y])
        y.sum().backward()
        grad, w.grad = w.grad, None
        assert grad is not None
        return grad

    compiled = jit(f)
    for numbers in ([1.0, 0.5], [-3.0, 0.5]):
        agrees(compiled(mt.tensor(numbers)), f(mt.tensor(numbers)))


def other_updated_in_a_branch(x: Tensor) -> Tensor:
    y = x * 1
    return tf.cond(x.sum() > 0, lambda: y.mul_(2), lambda: y * 1) + y


def other_updated_in_a_loop(x: Tensor) -> Any:
    y = x * 1

    def body(i: Tensor) -> Tensor:
        y[0] += 1
        return i + 1

    return tf.while_loop(lambda i: i < 3, body, [mt.tensor(0)]), y


def parameter_updated_in_a_branch(x: Tensor) -> Tensor:
    with mt.no_grad():
        return tf.cond(x.sum() > 0, lambda: FACTORS.mul_(2) * 1, lambda: x[0])


@pytest.mark.parametrize(
    "function",
    [other_updated_in_a_branch, other_updated_in_a_loop, parameter_updated_in_a_branch],
)
def test_an_update_inside_of_what_is_outside_a_branch_or_loop_is_refused(function: Any) -> None:
    with pytest.raises(GraphError, match=r"branch.*loop.*test_trace.py"):
        jit(function)(mt.ones(2, 2))
    assert FACTORS.tolist() == [1, 1]


def test_a_loop_that_starts_from_numbers_may_use_traced_tensors() -> None:
    def f(x: Tensor) -> Any:
        return tf.while_loop(lambda i, total: i < 3, lambda i, t: [i + 1, t + x.sum()], [0, 0.0])

    got = jit(f)(mt.tensor([1.0, 2.0]))
    assert [value.item() for value in got] == [3, 9.0]


def test_a_python_loop_over_a_known_length_is_unrolled() -> None:
    def f(x: Tensor) -> Tensor:
        total = mt.zeros(2)
        for row in x:
            total = total * 0.5 + row
        return total if len(x) > 2 else -total

    x = mt.tensor(array(4, 2))
    agrees(jit(f)(x), f(x))


# ── what is refused, and what is left behind ────────────────────────────────────────────────────


def row_before(x: Tensor) -> Tensor:
    row = x[0]
    x += 1
    return row + x.sum()


def turned_back_before(x: Tensor) -> Tensor:
    same = x.mT.mT
    x += 1
    return same + x


def detached_before(x: Tensor) -> Tensor:
    y = x * 2
    same = y.detach()
    y += 1
    return same


def row_filled(x: Tensor) -> Tensor:
    x[0].fill_(1)
    return x


def row_filled_without_gradients(x: Tensor) -> Tensor:
    y = x * FACTORS
    with mt.no_grad():
        y[0].zero_()
    return y


def diagonal_added_to(x: Tensor) -> Tensor:
    x.diagonal().add_(1)
    return x


def rows_added_to(x: Tensor) -> Tensor:
    y = x * 1
    for row in y:
        row += 1
    return y


def flat_added_to(x: Tensor) -> Tensor:
    flat = x.view(-1)
    flat += 1
    return flat.sum()


def same_rows_added_to(x: Tensor) -> Tensor:
    row, same = x[0], x[:1]
    row += 1
    return same


def other_row_assigned(x: Tensor) -> Tensor:
    y = x * 1
    row = y[0]
    row += 1
    y[1] = row
    return y


def gradient_halved(x: Tensor) -> Any:
    (x * FACTORS).sum().backward()
    flat = FACTORS.grad.view(-1)
    flat /= 2
    grad, FACTORS.grad = FACTORS.grad, None
    return grad


def buffer_added_to(x: Tensor) -> Tensor:
    row, last = COUNTS[:1], COUNTS.detach()[-1]
    row += 1
    COUNTS[1] += 3
    result = x * last + COUNTS + row
    COUNTS.zero_()
    return result + last


FACTORS, COUNTS = mt.ones(2, requires_grad=True), mt.zeros(2)


def gradient_recorded_too_late(x: Tensor) -> Tensor:
    y = x * 1
    with mt.no_grad():
        row = y[0]
    row.mul_(FACTORS)
    return y


def row_of_a_parameter_updated(x: Tensor) -> Tensor:
    FACTORS[0].zero_()
    return x * FACTORS


def expanded_filled(x: Tensor) -> Tensor:
    x[:1].expand(2, 2).fill_(1)
    return x


def overlapping_windows_zeroed(x: Tensor) -> Tensor:
    x.unfold(0, 2, 1).zero_()
    return x


def reshaped_added_to(x: Tensor) -> Tensor:
    x.reshape(-1).add_(1)
    return x


def reshaped_before(x: Tensor) -> Tensor:
    flat = x.flatten()
    x += 1
    return flat


def row_in_order_added_to(x: Tensor) -> Tensor:
    x.mT.contiguous().add_(1)
    return x


def halves_added_to_integers(x: Tensor) -> Tensor:
    return x.long().add_(x * 0.5)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (halves_added_to_integers, DTypeError, "add_: a float32 result does not fit int64"),
        (gradient_recorded_too_late, GradientError, r"mul_: .* made under no_grad\(\)"),
        (row_of_a_parameter_updated, GradientError, "fill_: cannot overwrite a leaf"),
        (expanded_filled, ShapeError, "expanded tensor.*clone"),
        (overlapping_windows_zeroed, ShapeError, "windows that overlap.*clone"),
        (reshaped_added_to, GraphError, r"reshaped tensor.*test_trace.py.*view\(\)"),
        (reshaped_before, GraphError, r"reshaped tensor.*test_trace.py.*view\(\)"),
        (row_in_order_added_to, GraphError, r"reshaped tensor.*test_trace.py.*view\(\)"),
    ],
)
def test_an_update_of_what_no_trace_can_tell_or_may_not_be_written_to_is_refused(
    function: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        jit(function)(mt.ones(2, 2))
    assert FACTORS.tolist() == [1, 1] and COUNTS.tolist() == [0, 0] and FACTORS.grad is None


def row_no_longer_used(x: Tensor) -> Tensor:
    row = x[0]
    total = row.sum()
    x += 1
    return total + x.sum()


def parts_assigned(x: Tensor) -> Tensor:
    y = x * 1
    y[0] += 1
    y[:, 1] *= y[:, 0]
    return y


def diagonal_filled(x: Tensor) -> Tensor:
    return (x * 2).fill_diagonal_(5)


def other_parts(x: Tensor) -> Tensor:
    left, right = (x * 3).chunk(2, 1)
    left -= right
    return left * right


def detached(x: Tensor) -> Tensor:
    y = x * 2
    y.detach().add_(1)
    y.data.clamp_(0, 6)
    return y


def detached_argument(x: Tensor) -> Tensor:
    x.data[0] = 7
    return x * FACTORS


def without_gradients(x: Tensor) -> Tensor:
    y = x * FACTORS
    with mt.no_grad():
        y.mul_(3)
    (y * y).sum().backward()
    grad, FACTORS.grad = FACTORS.grad, None
    return grad


def clipped_gradient(x: Tensor) -> Tensor:
    (x * FACTORS).sum().backward()
    FACTORS.grad.data.clamp_(0, 5)
    grad, FACTORS.grad = FACTORS.grad, None
    return grad


def shown_parameter(x: Tensor) -> Tensor:
    return x * FACTORS.view(1, 2)


def parameter_halved_and_restored(x: Tensor) -> Tensor:
    first = FACTORS[:1]
    with mt.no_grad():
        FACTORS[0].mul_(0.5)
        halved = x * FACTORS + first
        FACTORS.data[0] *= 2
    (first * FACTORS).sum().backward()
    grad, FACTORS.grad = FACTORS.grad, None
    return halved + grad


def axes_moved_and_taken_away(x: Tensor) -> Tensor:
    y = (x * 2).unsqueeze(1)
    y.permute(1, 2, 0).squeeze(0)[0].exp_()
    y.view(4)[1:].view(1, 3).mT[1:].mul_(y[0, 0, 0])
    return y


def view_of_a_view(x: Tensor) -> Tensor:
    y = x * 1
    corner, row, rows = y[0][:1], y[0], y.view(1, 2, 2)
    y.mul_(2)
    corner.add_(row[1])
    rows[0, 1].copy_(row)
    return corner + y


def branch_and_loop(x: Tensor) -> Tensor:
    y = x * 1
    row, other = y[0], y[1]
    y += 1

    def more(i: Tensor, total: Tensor) -> list[Tensor]:
        total = total + row
        part = total[:1]
        total += row
        part *= 2
        return [i + 1, total]

    _, total = tf.while_loop(lambda i, total: i < 3, more, [mt.tensor(0), other * 1])
    return tf.cond(total.sum() > 0, lambda: total + other, lambda: total - other) + other


SHOWN = [row_no_longer_used, parts_assigned, other_parts, detached, detached_argument]
SHOWN += [without_gradients, clipped_gradient, shown_parameter, diagonal_filled]
SHOWN += [row_before, turned_back_before, detached_before, row_filled, view_of_a_view]
SHOWN += [row_filled_without_gradients, diagonal_added_to, rows_added_to, flat_added_to]
SHOWN += [same_rows_added_to, other_row_assigned, gradient_halved, branch_and_loop]
SHOWN += [parameter_halved_and_restored, axes_moved_and_taken_away, buffer_added_to]


@pytest.mark.parametrize("function", SHOWN)
def test_an_update_is_shown_by_all_that_share_its_memory(function: Any) -> None:
    mine, theirs = (mt.tensor([[1.0, 2.0], [3.0, 4.0]]) for _ in range(2))
    compiled = jit(function)
    for _ in range(2):
        agrees(compiled(mine), function(theirs))
        agrees(mine, theirs)


def test_a_gradient_reads_what_an_updated_tensor_was_in_its_own_call() -> None:
    scale, x = mt.ones(3), mt.ones(3, requires_grad=True)

    def f(x: Tensor) -> Tensor:
        total = (x.sin() * scale).sum()
        scale.add_(1)
        return total

    compiled = jit(f)
    for count in (1, 2):
        (slope,) = mt.grad(compiled(x), x, create_graph=True)
        agrees(slope.detach(), count * mt.ones(3).cos())
        agrees(mt.grad(slope.sum(), x)[0], -count * mt.ones(3).sin())


SIZES: dict[str, Callable[[Any], object]] = {
    "numel": mt.numel,
    "len": len,
    "size": methodcaller("size", 0),
    "shape": lambda rows: rows.shape[0],
    "all sizes": lambda rows: rows.shape == (2,),
    "equal": lambda rows: rows.shape[0] == 2,
    "share": lambda rows: rows.sum() / rows.shape[0],
    "slice": lambda rows: rows[: rows.shape[0]],
    "zeros": lambda rows: mt.zeros(*rows.shape),
    "reshape": lambda rows: rows.reshape(rows.shape[0], 1),
}


@pytest.mark.parametrize("ask", SIZES.values(), ids=SIZES.keys())
def test_a_size_that_only_a_run_can_tell_is_refused(ask: Callable[[Any], int]) -> None:
    def f(x: Tensor) -> Tensor:
        (rows,) = mt.where(x > 0)
        if ask(rows):  # an unknown size would be taken for none
            x = x[rows] * 2
        return x.sum()

    with pytest.raises(GraphError, match=r"test_trace.py:\d+ \(`.*a size depends on it"):
        jit(f)(mt.ones(3))
    known = jit(lambda x: x * x.numel() * x.size(0))(mt.ones(3))
    assert known.tolist() == [9.0, 9.0, 9.0]


def test_a_value_that_is_kept_outside_its_trace_is_refused() -> None:
    kept = []
    jit(lambda x: kept.append(x * 2))(mt.ones(2))
    with pytest.raises(GraphError, match="outside its trace"):
        kept[0] + 1


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="jit: got int"):
        jit(3)
    with pytest.raises(ArgumentError, match="jit: got an argument or result of type set"):
        jit(lambda x: x)({1})
    traced = trace(lambda x, y: x + y)(mt.ones(2), mt.ones(2))
    with pytest.raises(GraphError, match="got 1 tensors, expected 2"):
        traced(mt.ones(2))


def test_an_error_inside_leaves_nothing_behind() -> None:
    net = nn.BatchNorm1d(2)
    before = dict(net.named_buffers())

    def f(x: Tensor) -> Tensor:
        raise ValueError("mine") if net(x).shape else None

    with pytest.raises(ValueError, match="mine"):
        jit(f)(mt.ones(3, 2))
    assert all(dict(net.named_buffers())[name] is buffer for name, buffer in before.items())
    assert net.num_batches_tracked.item() == 0
    (mt.ones(2, requires_grad=True) * 2).sum().backward()
    x = mt.ones(2)
    assert (x + 1).numpy().tolist() == [2, 2]


def test_other_threads_compute_while_one_traces() -> None:
    inside, done = threading.Event(), threading.Event()
    results = []

    def other() -> None:
        inside.wait(30)
        w = mt.ones(2, requires_grad=True)
        results.append((w * 3).sum().item())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def f(x: Tensor) -> Tensor:
        inside.set()
        assert done.wait(30)
        return x * 2

    jit(f)(mt.ones(2))
    thread.join()
    assert results == [6.0]


def test_a_graph_that_is_dropped_is_freed_without_the_cycle_collector() -> None:
    x = mt.ones(3, requires_grad=True)
    compiled = jit(lambda x: (x * 2).exp())
    compiled(x).sum().backward()
    gc.collect()
    gc.disable()
    try:
        result = compiled(x)
        held = weakref.ref(result)
        del result
        assert held() is None
    finally:
        gc.enable()


# ── the graph itself ────────────────────────────────────────────────────────────────────────────


def test_a_trace_is_a_graph_that_a_session_runs_and_an_optimizer_trains() -> None:
    net = nn.Linear(3, 1)
    x, y = array(20, 3), array(20, 1)
    traced = trace(lambda x, y: F.mse_loss(net(x), y))(mt.tensor(x), mt.tensor(y))
    with traced.graph.as_default(), tf.Session() as session:
        step = tf.train.GradientDescentOptimizer(0.1).minimize(traced.outputs)
        session.run(tf.initialize_all_variables())
        feed = dict(zip(traced.inputs, (x, y), strict=True))
        losses = [session.run([traced.outputs, step], feed)[0] for _ in range(5)]
    opt = mt.optim.SGD(net.parameters(), lr=0.1)
    for want in losses:
        loss = F.mse_loss(net(mt.tensor(x)), mt.tensor(y))
        assert loss.item() == pytest.approx(float(want), rel=1e-5)
        opt.zero_grad()
        loss.backward()
        opt.step()
    assert {node.name for node in traced.captured} == {"weight", "bias"}


def test_a_trace_feeds_what_it_captured_and_is_called_as_the_function() -> None:
    w = mt.tensor([2.0, 3.0], requires_grad=True)
    traced = trace(lambda x, n: {"y": x * w + n})(mt.ones(2), 4)
    got = tf.Session(traced.graph).run(traced.outputs, traced.feed(mt.ones(2)))
    assert got["y"].tolist() == [6, 7]
    result = traced(mt.ones(2))["y"]
    result.sum().backward()
    assert result.tolist() == [6, 7]
    assert w.grad.tolist() == [1, 1]
    assert tf.count_nodes(traced.outputs) == 5


def test_optimizing_merges_what_the_code_computes_twice() -> None:
    def f(x: Tensor) -> Tensor:
        return (x.exp() + 1) * (x.exp() + 1)

    traced = trace(f)(mt.ones(3))
    assert tf.count_nodes(tf.optimize(traced.outputs)) < tf.count_nodes(traced.outputs)
    x = mt.tensor(array(3))
    agrees(jit(f)(x), f(x))
    agrees(jit(f, optimize=False)(x), f(x))


def test_nodes_name_the_line_of_the_imperative_code() -> None:
    def f(x: Tensor) -> Tensor:
        return x.exp()

    traced = trace(f)(mt.ones(3))
    assert traced.outputs.built_at == (__file__, f.__code__.co_firstlineno + 1)
    with pytest.raises(ValueError, match=r"test_trace.py:\d+"):
        trace(lambda x: x @ x)(mt.ones(2, 3))


def test_compiled_code_runs_over_torch_arrays_as_on_a_gpu(torch_arrays: None) -> None:
    x, numbers = mt.tensor(array(5, 3)), array(4, 3)

    def f(x: Tensor, w: Tensor) -> Any:
        h = F.dropout(F.linear(x, w).relu(), 0.5)
        return h.sum(), h * h.detach()

    found = []
    for function in (f, jit(f)):
        mt.manual_seed(0)
        w = mt.tensor(numbers, requires_grad=True)
        results = function(x, w)
        (results[0] + results[1].sum()).backward()
        found.append((*results, w.grad))
    agrees(found[1], found[0])
    compiled = jit(lambda x: x + mt.randn(3))
    mt.manual_seed(0)
    drawn = mt.randn(3)
    mt.manual_seed(0)
    agrees(compiled(mt.zeros(3)), drawn)
