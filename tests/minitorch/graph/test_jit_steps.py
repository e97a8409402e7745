"""Whole training steps compiled, beside the same steps as they are: losses, state, gradients."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch as mt
from minitorch import Tensor, nn, optim
from minitorch.errors import GradientError, GraphError
from minitorch.graph import jit
from minitorch.tracing.jitted import MOST_TRACES

F = nn.functional
BATCH, WIDTH, CLASSES, STEPS = 6, 5, 3, 20

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.05),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
    "adadelta": lambda p: optim.Adadelta(p),
}


class Run:
    """A model, its optimizer and scheduler, from one seed; its step as it is or compiled."""

    def __init__(
        self,
        model: Callable[[], nn.Module],
        optimizer: Callable[[Any], optim.Optimizer] = OPTIMIZERS["adamw"],
        clip: float | None = None,
        compiled: bool = False,
    ) -> None:
        mt.manual_seed(0)
        self.model = model()
        self.optimizer = optimizer([p for p in self.model.parameters() if p.requires_grad])
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, 4, 0.5)
        self.clip = clip
        self.step: Any = jit(self._step) if compiled else self._step

    def _step(self, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss

    def losses(self, batches: list[tuple[Tensor, Tensor]]) -> list[float]:
        mt.manual_seed(1)
        found = []
        for x, y in batches:
            found.append(float(self.step(x, y).item()))
            self.scheduler.step()
        return found

    def everything(self) -> list[Any]:
        """Return parameters, buffers, gradients and the optimizer's state."""
        params = list(self.model.parameters())
        grads = [p.grad for p in params]
        state = [v for s in self.optimizer.state_dict()["state"].values() for v in s.values()]  # type: ignore[attr-defined]
        values = [*params, *self.model.buffers(), *grads, *state]
        return [v.detach().numpy().copy() if isinstance(v, Tensor) else v for v in values]


def batches(count: int = STEPS, size: int = BATCH) -> list[tuple[Tensor, Tensor]]:
    rng = np.random.default_rng(2)
    return [
        (mt.tensor(rng.normal(size=(size, WIDTH))), mt.tensor(rng.integers(0, CLASSES, size)))
        for _ in range(count)
    ]


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)


def same(model: Callable[[], nn.Module], **options: Any) -> Run:
    """Check 20 steps compiled beside the same as they are; return the compiled run."""
    plain, compiled = (Run(model, compiled=c, **options) for c in (False, True))
    close(compiled.losses(batches()), plain.losses(batches()))
    for a, b in zip(compiled.everything(), plain.everything(), strict=True):
        assert (a is None) == (b is None)
        close(0 if a is None else a, 0 if b is None else b)
    assert len(compiled.step.traces) == 1
    return compiled


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, CLASSES)).double()


def drawn_model(seed: int) -> nn.Module:
    """Return a model of layers drawn at random."""
    rng = np.random.default_rng(seed)
    layers: list[nn.Module] = []
    width = WIDTH
    for _ in range(int(rng.integers(1, 4))):
        wide = int(rng.integers(2, 9))
        layers.append(nn.Linear(width, wide, bias=bool(rng.integers(2))))
        extra = [
            lambda w: nn.BatchNorm1d(w), lambda w: nn.LayerNorm(w),
            lambda w: nn.Dropout(0.4), lambda w: nn.GELU(), lambda w: nn.ReLU(),
        ]  # fmt: skip
        layers += [extra[i](wide) for i in rng.permutation(len(extra))[: rng.integers(1, 4)]]
        width = wide
    return nn.Sequential(*layers, nn.Linear(width, CLASSES)).double()


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_every_optimizer_with_a_scheduler_and_clipping(name: str, clip: float | None) -> None:
    same(mlp, optimizer=OPTIMIZERS[name], clip=clip)


@pytest.mark.parametrize("seed", range(8))
def test_models_drawn_at_random_train_as_they_do_uncompiled(seed: int) -> None:
    same(lambda: drawn_model(seed), optimizer=OPTIMIZERS["sgd"], clip=1.0 if seed % 2 else None)


def test_a_step_that_is_wrong_is_told_from_a_right_one() -> None:
    class Wrong(Run):
        def _step(self, x: Tensor, y: Tensor) -> Tensor:
            loss = super()._step(x, y)
            with mt.no_grad():
                next(self.model.parameters()).mul_(1.0005)
            return loss

    right, wrong = Run(mlp), Wrong(mlp, compiled=True)
    with pytest.raises(AssertionError):
        close(wrong.losses(batches()), right.losses(batches()))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x).tanh()))


class Frozen(Tied):
    def __init__(self) -> None:
        super().__init__()
        self.first.bias.requires_grad_(False)


@pytest.mark.parametrize("kind", [Tied, Frozen])
def test_tied_and_frozen_parameters(kind: type[nn.Module]) -> None:
    same(lambda: kind().double(), clip=0.5)


def test_a_parameter_that_is_frozen_later_stays_where_it_is() -> None:
    runs = [Run(mlp, compiled=c) for c in (False, True)]
    for run in runs:
        run.losses(batches(3))
        run.model[0].weight.requires_grad_(False)
        run.model[0].weight.grad = None
        run.losses(batches(3))
    for a, b in zip(runs[0].everything(), runs[1].everything(), strict=True):
        close(0 if a is None else a, 0 if b is None else b)


def test_views_of_parameters_show_the_optimizers_step() -> None:
    def step(weight: Tensor, optimizer: Any) -> Any:
        row, same = weight[:2], weight.detach()
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
        return row.detach() * 1, weight.detach() - same

    found = []
    for compile_step in (lambda f: f, jit):
        weight = mt.ones(3, requires_grad=True)
        optimizer = mt.optim.SGD([weight], lr=0.1)
        run = compile_step(lambda w=weight, o=optimizer: step(w, o))
        found.append([[r.tolist() for r in run()] for _ in range(2)])
    assert found[0] == found[1]
    assert found[0][0][1] == [0, 0, 0]


def test_views_of_parameters_elsewhere_stay_true_and_gradients_are_the_callers() -> None:
    run = Run(mlp, compiled=True)
    weight = run.model[0].weight
    view, array = weight.detach()[0], weight.array
    run.losses(batches(2))
    assert weight.array is array
    close(view.numpy(), weight.detach().numpy()[0])
    grad = weight.grad
    assert grad is not None
    before = grad.numpy().copy()
    run.losses(batches(1))
    close(grad.numpy(), before)  # zero_grad has let it go; the next one is another


def test_gradients_are_added_up_over_calls_and_within_one() -> None:
    def accumulate(compiled: bool) -> list[Any]:
        run = Run(mlp)

        def two(x: Tensor, y: Tensor) -> Tensor:
            for part in range(2):
                loss = F.cross_entropy(run.model(x + part), y) / 2
                loss.backward()
            return loss

        step = jit(two) if compiled else two
        for x, y in batches(3):
            step(x, y)
        return run.everything()

    for a, b in zip(accumulate(True), accumulate(False), strict=True):
        close(0 if a is None else a, 0 if b is None else b)


def test_updates_by_hand_averages_and_what_is_read_after_a_step() -> None:
    def averaged(compiled: bool) -> list[Any]:
        run = Run(mlp)
        mean = [p.detach().clone() for p in run.model.parameters()]
        count = mt.zeros(1)

        def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            before = run._step(x, y)
            count.add_(1)
            with mt.no_grad():
                for m, p in zip(mean, run.model.parameters(), strict=True):
                    m.mul_(0.9).add_(p, alpha=0.1)
                    p.sub_(0.01 * p)
                run.model[0].weight.data -= 0.001 * run.model[0].weight.grad
            return before, F.cross_entropy(run.model(x), y)

        function = jit(step) if compiled else step
        found = [float(v.item()) for x, y in batches(5) for v in function(x, y)]
        if compiled:
            assert len(function.traces) == 1
        return [found, count.numpy(), *(m.numpy() for m in mean), *run.everything()]

    for a, b in zip(averaged(True), averaged(False), strict=True):
        close(a, b)


@pytest.mark.parametrize("as_data", [False, True])
def test_a_gradient_beside_an_update_by_hand_and_one_of_a_frozen_copy(as_data: bool) -> None:
    def trained(compiled: bool) -> list[Any]:
        run = Run(mlp)
        params = [*run.model.parameters()]
        copied = copy.deepcopy(run.model).requires_grad_(False)

        def step(x: Tensor, y: Tensor) -> Tensor:
            F.mse_loss(run.model(x), copied(x) + 1).backward()
            steps = [0.1 * p.grad for p in params]
            with mt.no_grad():
                for p, change in zip(params, steps, strict=True):
                    p.add_(change)
            run._step(x, y)
            with mt.no_grad():
                for p, change in zip(params, steps, strict=True):
                    p.sub_(change)
            for c, p in zip(copied.parameters(), params, strict=True):
                if as_data:
                    c.data.copy_(c.data * 0.9 + p.data * 0.1)
                else:
                    c.mul_(0.9).add_(p.detach(), alpha=0.1)
            return F.cross_entropy(copied(x), y)

        function = jit(step) if compiled else step
        found = [function(x, y).item() for x, y in batches(4)]
        return [found, *(c.numpy() for c in copied.parameters()), *run.everything()]

    for a, b in zip(trained(True), trained(False), strict=True):
        close(a, b)


def test_two_optimizers_in_one_step_and_a_scheduler_inside() -> None:
    def adversaries(compiled: bool) -> list[Any]:
        one, two = Run(mlp), Run(mlp, optimizer=OPTIMIZERS["sgd"])

        def step(x: Tensor, y: Tensor) -> Tensor:
            one._step(x, y)
            two.optimizer.zero_grad()
            loss = -F.cross_entropy(one.model(two.model(x) @ two.model[0].weight[:3]), y)
            loss.backward()
            two.optimizer.step()
            two.scheduler.step()
            return loss

        function = jit(step) if compiled else step
        losses = [float(function(x, y).item()) for x, y in batches(6)]
        return [losses, *one.everything(), *two.everything(), two.optimizer.param_groups[0]["lr"]]

    for a, b in zip(adversaries(True), adversaries(False), strict=True):
        close(a, b)


def test_copies_and_states_that_are_loaded_between_calls() -> None:
    plain, compiled = Run(mlp), Run(mlp, compiled=True)
    for run in (plain, compiled):
        run.losses(batches(3))
        model, state = copy.deepcopy(run.model), copy.deepcopy(run.optimizer.state_dict())
        run.losses(batches(2))
        run.model.load_state_dict(model.state_dict())
        run.optimizer.load_state_dict(state)
    close(compiled.losses(batches(4)), plain.losses(batches(4)))


def test_a_second_model_in_the_place_of_the_first_is_trained() -> None:
    run = Run(mlp, compiled=True)
    run.losses(batches(2))
    run.model = copy.deepcopy(run.model)
    before = [p.detach().numpy().copy() for p in run.model.parameters()]
    run.optimizer = OPTIMIZERS["sgd"](run.model.parameters())
    run.losses(batches(1))
    for p, b in zip(run.model.parameters(), before, strict=True):
        assert not np.array_equal(p.detach().numpy(), b)


def test_other_shapes_have_plans_of_their_own_and_are_bounded() -> None:
    plain, compiled = Run(mlp), Run(mlp, compiled=True)
    data = [batches(1, size)[0] for size in (2, 3, 2, 4, 3)]
    close(compiled.losses(data), plain.losses(data))
    assert len(compiled.step.traces) == 3
    many = [batches(1, size)[0] for size in range(1, MOST_TRACES + 3)]
    with pytest.warns(UserWarning, match="more than 8 combinations") as caught:
        close(compiled.losses(many), plain.losses(many))
    assert len(caught) == 1
    assert len(compiled.step.traces) == MOST_TRACES


def test_what_goes_wrong_leaves_everything_as_it_was() -> None:
    run = Run(lambda: nn.Sequential(mlp(), nn.BatchNorm1d(CLASSES)).double(), compiled=True)
    run.losses(batches(2))
    before = run.everything()
    (x, y) = batches(1)[0]
    for bad in (mt.tensor(np.full(BATCH, CLASSES)), y[:2]):
        with pytest.raises(mt.errors.MinitorchError):
            run.step(x, bad)
        for a, b in zip(run.everything(), before, strict=True):
            close(a, b)
    run.losses(batches(1))  # and it goes on


def test_where_nothing_can_fail_old_gradients_go_at_once() -> None:
    weight = mt.zeros(900, 80, requires_grad=True)
    x, places = mt.ones(3, 900), []

    @jit
    def step(x: Tensor) -> None:
        weight.grad = None
        F.mse_loss(x @ weight, mt.ones(3, 80)).backward()

    for _ in range(3):
        step(x)
        assert weight.grad is not None
        places.append(weight.grad.numpy().ctypes.data)
    assert places[1] == places[2]


def test_memory_of_old_gradients_takes_the_new_ones_unless_somebody_holds_them() -> None:
    weight = mt.zeros(900, 70, requires_grad=True)  # of a size that nothing else here has
    x, classes = mt.ones(3, 900), mt.tensor([0, 69, 7])

    @jit
    def step(x: Tensor, classes: Tensor) -> None:
        weight.grad = None
        F.cross_entropy(x @ weight, classes).backward()

    def place() -> int:
        assert weight.grad is not None
        return int(weight.grad.numpy().ctypes.data)

    step(x, classes)
    step(x, classes)
    first = place()
    step(x, classes)
    assert place() == first
    held = weight.grad
    before = held.numpy().copy()
    with pytest.raises(mt.errors.MinitorchError):
        step(x, mt.tensor([0, 70, 7]))
    assert weight.grad is held  # what can fail has run before the old one goes
    step(x * 2, classes)
    assert place() != first
    close(held.numpy(), before)


def reads(run: Run, x: Tensor, y: Tensor) -> None:
    loss = F.cross_entropy(run.model(x), y)
    loss.backward()
    if loss.item() > 0:
        run.optimizer.step()


def plateau(run: Run, x: Tensor, y: Tensor) -> None:
    loss = F.cross_entropy(run.model(x), y)
    loss.backward()
    optim.lr_scheduler.ReduceLROnPlateau(run.optimizer).step(loss)


def branches(run: Run, x: Tensor, y: Tensor) -> None:
    def one() -> Tensor:
        run.optimizer.step()
        return x

    loss = F.cross_entropy(run.model(x), y)
    loss.backward()
    mt.graph.cond(loss > 0, one, lambda: x)


@pytest.mark.parametrize(("function", "line"), [(reads, 3), (plateau, 3), (branches, 2)])
def test_what_cannot_be_traced_names_its_line_and_changes_nothing(function: Any, line: int) -> None:
    run = Run(mlp)
    before = [p.detach().numpy().copy() for p in run.model.parameters()]
    with pytest.raises(GraphError, match=rf"{__file__}:{function.__code__.co_firstlineno + line}"):
        jit(lambda x, y: function(run, x, y))(*batches(1)[0])
    for p, b in zip(run.model.parameters(), before, strict=True):
        close(p.detach().numpy(), b)
        assert p.grad is None
    assert optim.Optimizer.step is type(run.optimizer).step  # and eager code is eager again


def test_a_loss_without_gradient_and_one_that_is_no_number_are_refused() -> None:
    for function in (lambda x: x.sum().backward(), lambda x: (x * Tensor(2, 1)).backward()):
        with pytest.raises(GradientError, match=__file__):
            jit(function)(mt.ones(2))
    weight = mt.ones(2, requires_grad=True)
    with pytest.raises(GradientError, match="expected one element"):
        jit(lambda x: (x * weight).backward())(mt.ones(2))
    outer = weight * 2
    with pytest.raises(GraphError, match="computed outside"):
        jit(lambda x: (x * outer).sum().backward())(mt.ones(2))


def test_gradients_of_arguments_hooks_and_gradients_of_gradients() -> None:
    def penalty(compiled: bool) -> list[Any]:
        weight = mt.tensor([1.0, -2.0], dtype="float64", requires_grad=True)
        weight.register_hook(lambda grad: grad * 2)

        def f(x: Tensor) -> Tensor:
            (x * weight * weight).sum().backward(create_graph=True)
            grad = weight.grad
            assert grad is not None
            weight.grad = None
            total = (grad * grad).sum()
            total.backward()
            return total

        x = mt.tensor([0.5, 3.0], dtype="float64", requires_grad=True)
        total = (jit(f) if compiled else f)(x)
        return [v.detach().numpy() for v in (total, weight.grad, x.grad) if v is not None]

    for a, b in itertools.zip_longest(penalty(True), penalty(False)):
        close(a, b)


def test_two_views_of_one_memory_that_are_both_used_are_refused() -> None:
    whole = mt.zeros(4)
    part = whole[:2]
    with pytest.raises(GraphError, match="shares memory with"):
        jit(lambda x: (part.add_(x), whole + x[0])[1])(mt.ones(2))
    assert whole.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("whole", [True, False])
def test_parts_of_one_tensor_send_their_gradients_back_as_one(whole: bool) -> None:
    def parts(x: Tensor) -> Tensor:
        a, b, c = x.unbind(0)
        return ((a * b).tanh() + c).sum() if whole else (a.exp() * x[1:, 2].sum(0) * x[0]).sum()

    def grad(function: Any) -> Any:
        x = mt.tensor(np.random.default_rng(3).normal(size=(3, 3, 3)), requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        return x.grad.numpy()

    close(grad(jit(parts)), grad(parts))


@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_that_comes_or_goes_is_noticed(hook: str) -> None:
    layer, x = nn.Linear(2, 1), mt.ones(3, 2)
    compiled = jit(lambda x: layer(x))
    for factor in (2.0, 3.0):
        plain = compiled(x)
        handle = getattr(layer, hook)(lambda _, *values, f=factor: values[-1][0] * f)
        expected = layer(x)
        assert mt.equal(compiled(x), expected) and not mt.equal(plain, expected)
        handle.remove()
        assert mt.equal(compiled(x), plain)
