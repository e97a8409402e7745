"""Learning-rate schedules give PyTorch's rates, step for step."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from minitorch import optim
from minitorch.errors import ArgumentError
from minitorch.tensor.tensor import tensor

CASES: list[tuple[str, dict[str, Any]]] = [
    ("LambdaLR", {"lr_lambda": lambda t: 0.9**t}),
    ("StepLR", {"step_size": 7, "gamma": 0.3}),
    ("MultiStepLR", {"milestones": [3, 3, 20], "gamma": 0.5}),
    ("ExponentialLR", {"gamma": 0.93}),
    ("LinearLR", {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 9}),
    ("CosineAnnealingLR", {"T_max": 15}),
    ("CosineAnnealingLR", {"T_max": 15, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": 0.7, "total_steps": 60}),
    ("OneCycleLR", {"max_lr": 0.7, "epochs": 8, "steps_per_epoch": 10}),
    ("OneCycleLR", {"max_lr": [0.7, 0.1], "total_steps": 45, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.7, "total_steps": 45, "three_phase": True}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4, "T_mult": 2, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 7}),
]


def pair() -> tuple[Any, Any]:
    ours = [{"params": [tensor([1.0])]}, {"params": [tensor([1.0])], "lr": 0.05}]
    theirs = [{"params": [torch.ones(1)]}, {"params": [torch.ones(1)], "lr": 0.05}]
    return optim.SGD(ours, lr=0.3, momentum=0.9), torch.optim.SGD(theirs, lr=0.3, momentum=0.9)


def rates(optimizer: Any, schedule: Any, steps: int = 45) -> list[list[float]]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch reminds us to call optimizer.step() first
        for _ in range(steps):
            found.append([group["lr"] for group in optimizer.param_groups])
            schedule.step()
    return found


def close(a: list[list[float]], b: list[list[float]]) -> bool:
    return all(
        math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12)
        for p, q in zip(a, b, strict=True)
        for x, y in zip(p, q, strict=True)
    )


@pytest.mark.parametrize(("name", "options"), CASES)
def test_rates_equal_pytorchs(name: str, options: dict[str, Any]) -> None:
    ours, theirs = pair()
    mine = getattr(optim.lr_scheduler, name)(ours, **options)
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **options)
    assert close(rates(ours, mine), rates(theirs, reference))


def test_a_rate_slightly_off_is_seen_by_the_comparison() -> None:
    assert not close([[0.3]], [[0.3 * 1.0005]])


def test_two_schedules_on_one_optimizer_multiply() -> None:
    def both(module: Any, optimizer: Any) -> list[list[float]]:
        a = module.ExponentialLR(optimizer, gamma=0.9)
        b = module.StepLR(optimizer, step_size=4)

        class Both:
            def step(self) -> None:
                a.step()
                b.step()

        return rates(optimizer, Both())

    ours, theirs = pair()
    assert close(both(optim.lr_scheduler, ours), both(torch.optim.lr_scheduler, theirs))


def test_warm_up_then_cosine_equals_pytorchs() -> None:
    def sequence(module: Any, optimizer: Any) -> list[list[float]]:
        warm = module.LinearLR(optimizer, start_factor=0.1, total_iters=10)
        cosine = module.CosineAnnealingLR(optimizer, T_max=35)
        return rates(optimizer, module.SequentialLR(optimizer, [warm, cosine], milestones=[10]))

    ours, theirs = pair()
    assert close(sequence(optim.lr_scheduler, ours), sequence(torch.optim.lr_scheduler, theirs))


def test_momentum_moves_against_the_rate_in_one_cycle() -> None:
    ours, theirs = pair()
    mine = optim.lr_scheduler.OneCycleLR(ours, max_lr=1.0, total_steps=20)
    reference = torch.optim.lr_scheduler.OneCycleLR(theirs, max_lr=1.0, total_steps=20)
    for _ in range(19):
        a, b = (o.param_groups[0]["momentum"] for o in (ours, theirs))
        assert a == pytest.approx(b, rel=1e-9)
        theirs.step()
        mine.step()
        reference.step()


@pytest.mark.parametrize(
    ("name", "argument"), [("LambdaLR", lambda t: 0.5**t), ("OneCycleLR", 1.0), ("StepLR", 2)]
)
def test_a_rate_that_was_changed_by_hand_is_kept_where_pytorch_keeps_it(
    name: str, argument: Any
) -> None:
    options = {"total_steps": 9} if name == "OneCycleLR" else {}
    seen = []
    for module, optimizer in zip((optim, torch.optim), pair(), strict=True):
        schedule = getattr(module.lr_scheduler, name)(optimizer, argument, **options)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 7.0
        schedule.step()
        seen.append([group["lr"] for group in optimizer.param_groups])
    assert close([seen[0]], [seen[1]])


def test_a_restarted_cosine_may_be_asked_between_two_epochs() -> None:
    seen = []
    for module, optimizer in zip((optim, torch.optim), pair(), strict=True):
        schedule = module.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, 2)
        seen.append([])
        for batch in range(30):
            schedule.step(batch / 4)
            seen[-1].append(schedule.get_last_lr())
    assert close(*seen)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max", "threshold_mode": "abs", "cooldown": 2},
        {"min_lr": [0.1, 0.04]},
    ],
)
def test_plateau_equals_pytorchs(options: dict[str, Any]) -> None:
    ours, theirs = pair()
    mine = optim.lr_scheduler.ReduceLROnPlateau(ours, patience=2, factor=0.5, **options)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(
        theirs, patience=2, factor=0.5, **options
    )
    for metric in [3.0, 2.0, 2.5, 2.1, 2.0, 1.9, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0, 5.5, 5.4, 5.3, 5.2]:
        mine.step(metric)
        reference.step(metric)
        assert mine.get_last_lr() == pytest.approx([g["lr"] for g in theirs.param_groups])


def test_a_loaded_state_continues() -> None:
    ours, _ = pair()
    first = optim.lr_scheduler.CosineAnnealingLR(ours, T_max=20)
    expected = rates(ours, first, 12)
    other, _ = pair()
    second = optim.lr_scheduler.CosineAnnealingLR(other, T_max=20)
    rates(other, second, 6)
    saved, saved_optimizer = second.state_dict(), other.state_dict()
    third_optimizer, _ = pair()
    third = optim.lr_scheduler.CosineAnnealingLR(third_optimizer, T_max=20)
    third_optimizer.load_state_dict(saved_optimizer)
    third.load_state_dict(saved)
    assert close(rates(third_optimizer, third, 6), expected[6:])


@pytest.mark.parametrize(
    "build",
    [
        lambda o: optim.lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=0),
        lambda o: optim.lr_scheduler.LambdaLR(o, [lambda t: 1.0]),
        lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, mode="least"),
        lambda o: optim.lr_scheduler.SequentialLR(o, [], milestones=[1]),
        lambda o: optim.lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=9, pct_start=2.0),
        lambda o: optim.lr_scheduler.OneCycleLR(o, max_lr=[1.0], total_steps=9),
        lambda o: optim.lr_scheduler.OneCycleLR(
            optim.Adagrad(o.param_groups[0]["params"]), max_lr=1.0, total_steps=9
        ),
        lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, factor=1.5),
        lambda o: optim.lr_scheduler.ReduceLROnPlateau(o, min_lr=[0.1]),
        lambda o: optim.lr_scheduler.StepLR(o.param_groups, 1),
        lambda o: optim.lr_scheduler.StepLR(o, 0),
        lambda o: optim.lr_scheduler.StepLR(o, 1, last_epoch=3),
        lambda o: optim.lr_scheduler.MultiStepLR(o, 3),  # type: ignore[arg-type]
        lambda o: optim.lr_scheduler.LinearLR(o, start_factor=2.0),
        lambda o: optim.lr_scheduler.CosineAnnealingLR(o, 0),
        lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 0),
        lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2.5),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(build: Callable[[Any], Any]) -> None:
    with pytest.raises(ArgumentError):
        build(pair()[0])


def test_a_schedule_of_ones_own_gives_rates_by_get_lr() -> None:
    def warm(base: type[Any]) -> type[Any]:
        class Warm(base):
            def __init__(self, optimizer: Any, steps: int, last_epoch: int = -1) -> None:
                self.steps = steps
                super().__init__(optimizer, last_epoch)

            def get_lr(self) -> list[float]:
                return [lr * min(1.0, (self.last_epoch + 1) / self.steps) for lr in self.base_lrs]

        return Warm

    found = []
    for lib, optimizer in zip((optim, torch.optim), pair(), strict=True):
        schedule = warm(lib.lr_scheduler.LRScheduler)(optimizer, 3)
        found.append([schedule.get_last_lr()])
        for _ in range(4):
            optimizer.step()
            schedule.step()
            found[-1].append(schedule.get_last_lr())
    assert found[0] == found[1]
