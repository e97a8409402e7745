"""Optimizers take PyTorch's steps: the same parameters after the same gradients, in float64."""

from typing import Any

import numpy as np
import pytest
import torch

from minitorch import nn, optim
from minitorch.errors import ArgumentError
from minitorch.tensor.tensor import Tensor, tensor

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "betas": (0.7, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "eps": 1e-4}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {"lr": 0.02}),
    ("RMSprop", {"lr": 0.02, "alpha": 0.8, "momentum": 0.7, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.02, "centered": True, "momentum": 0.3}),
]
SHAPES = [(3, 4), (4,), (), (70, 61)]  # the last in one pass


def start(seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape)) for shape in SHAPES]


def ours_and_theirs(name: str, options: dict[str, Any]) -> tuple[Any, ...]:
    ours = [tensor(a).requires_grad_() for a in start()]
    theirs = [torch.tensor(a, requires_grad=True) for a in start()]
    return (
        ours,
        theirs,
        getattr(optim, name)(ours, **options),
        getattr(torch.optim, name)(theirs, **options),
    )


def give_gradients(ours: list[Tensor], theirs: list[Any], step: int) -> None:
    for p, q, g in zip(ours, theirs, start(100 + step), strict=True):
        g = g * (10.0 ** (step % 3 - 1))
        p.grad, q.grad = tensor(g), torch.tensor(g)


def distance(ours: list[Tensor], theirs: list[Any]) -> float:
    pairs = zip(ours, theirs, strict=True)
    return max(float(np.abs(p.detach().numpy() - q.detach().numpy()).max()) for p, q in pairs)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_twenty_steps_equal_pytorchs(name: str, options: dict[str, Any]) -> None:
    ours, theirs, mine, reference = ours_and_theirs(name, options)
    for step in range(20):
        give_gradients(ours, theirs, step)
        mine.step()
        reference.step()
    assert distance(ours, theirs) < 1e-12


def test_another_learning_rate_is_seen_by_the_comparison() -> None:
    ours, theirs, mine, reference = ours_and_theirs("Adam", {"lr": 0.05})
    mine.param_groups[0]["lr"] *= 1.0005
    give_gradients(ours, theirs, 0)
    mine.step()
    reference.step()
    assert distance(ours, theirs) > 1e-6


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_loaded_state_continues_as_if_nothing_had_happened(
    name: str, options: dict[str, Any]
) -> None:
    ours, theirs, mine, reference = ours_and_theirs(name, options)
    for step in range(5):
        give_gradients(ours, theirs, step)
        mine.step()
        reference.step()
    again = getattr(optim, name)(ours, lr=9.0)
    again.load_state_dict(mine.state_dict())
    for step in range(5, 10):
        give_gradients(ours, theirs, step)
        again.step()
        reference.step()
    assert distance(ours, theirs) < 1e-12


def test_groups_have_hyperparameters_of_their_own() -> None:
    a, b = tensor([1.0]).requires_grad_(), tensor([1.0]).requires_grad_()
    sgd = optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.1)
    a.grad, b.grad = tensor([1.0]), tensor([1.0])
    sgd.step()
    assert (a.item(), b.item()) == (pytest.approx(0.9), 0.0)


def test_a_parameter_without_a_gradient_stays() -> None:
    p = tensor([1.0]).requires_grad_()
    optim.Adam([p], lr=1.0).step()
    assert p.item() == 1.0


def test_the_step_is_in_place_and_backward_notices() -> None:
    p = tensor([2.0]).requires_grad_()
    memory = p.array
    loss = (p * p).sum()
    p.grad = tensor([1.0])
    optim.SGD([p], lr=0.5).step()
    assert p.array is memory
    with pytest.raises(RuntimeError, match="overwritten"):
        loss.backward()


def test_a_closure_is_evaluated_with_recording_on() -> None:
    p = tensor([3.0]).requires_grad_()
    sgd = optim.SGD([p], lr=0.1)

    def closure() -> Tensor:
        sgd.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert sgd.step(closure).item() == 9.0
    assert p.item() == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("SGD", {"lr": -1.0}, "lr -1.0"),
        ("SGD", {"lr": 0.1, "nesterov": True}, "nesterov"),
        ("Adam", {"betas": (1.0, 0.9)}, "betas"),
        ("Adam", {"betas": (0.9,)}, "expected two numbers"),
        ("Adam", {"betas": 0.9}, "expected two numbers"),
        ("Adam", {"lr": float("nan")}, "lr nan"),
        ("Adam", {"lr": "0.1"}, "lr 0.1, expected 0 or more"),
        ("RMSprop", {"alpha": -0.1}, "alpha"),
        ("Adagrad", {"initial_accumulator_value": -1.0}, "initial_accumulator_value"),
    ],
)
def test_hyperparameters_out_of_range_are_refused(
    name: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        getattr(optim, name)([tensor([1.0]).requires_grad_()], **options)


def test_what_is_no_list_of_leaves_is_refused() -> None:
    p = tensor([1.0]).requires_grad_()
    with pytest.raises(ArgumentError, match="no parameter"):
        optim.SGD([], lr=0.1)
    with pytest.raises(TypeError, match="single tensor"):
        optim.SGD(p, lr=0.1)
    with pytest.raises(TypeError, match=r"SGD: got a Linear, .* model\.parameters"):
        optim.SGD(nn.Linear(1, 1), lr=0.1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"clip_grad: got a Linear, .* model\.parameters"):
        nn.utils.clip_grad_norm_(nn.Linear(1, 1), 1.0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"got a group of \['lr'\], expected 'params'"):
        optim.SGD([{"lr": 0.1}], lr=0.1)
    with pytest.raises(ArgumentError, match="twice"):
        optim.SGD([p, p], lr=0.1)
    with pytest.raises(ArgumentError, match="mul computed"):
        optim.SGD([p * 2.0], lr=0.1)
    with pytest.raises(TypeError, match="int"):
        optim.SGD([1], lr=0.1)


def test_a_state_of_other_groups_is_refused() -> None:
    p, q = tensor([1.0]).requires_grad_(), tensor([1.0]).requires_grad_()
    with pytest.raises(ArgumentError, match=r"sizes \[2\], expected \[1\]"):
        optim.SGD([p], lr=0.1).load_state_dict(optim.SGD([p, q], lr=0.1).state_dict())
    with pytest.raises(ArgumentError, match=r"got \['weight'\], expected 'state' and"):
        optim.SGD([p], lr=0.1).load_state_dict({"weight": p})


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop"])
def test_options_about_how_a_step_runs_change_nothing_and_others_say_what_to_do(name: str) -> None:
    make = getattr(optim, name)
    make([tensor([1.0])], lr=0.1, foreach=True, maximize=False)
    if name.startswith("Adam"):
        make([tensor([1.0])], fused=True, capturable=None, differentiable=False)
    with pytest.raises(ArgumentError, match=r"maximize=True, which .* Minimize the loss"):
        make([tensor([1.0])], lr=0.1, maximize=True)
    with pytest.raises(TypeError, match=f"{name}: got an unexpected argument 'momentun'"):
        make([tensor([1.0])], lr=0.1, momentun=0.9)
