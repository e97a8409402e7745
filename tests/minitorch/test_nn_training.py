"""Training as a whole: the curves of PyTorch, a network that learns digits, memory that stays."""

import gc
import os
from typing import Any

import numpy as np
import psutil
import pytest
import torch

import minitorch as mt
from minitorch import nn, optim
from minitorch.data import DataLoader, digits
from minitorch.nn import functional as F
from minitorch.serialize import load, save

STEPS = 10_000 if os.environ.get("MINITORCH_WIDE") == "1" else 1_500


def build(lib: Any) -> Any:
    return lib.Sequential(
        lib.Conv2d(1, 6, 3, padding=1),
        lib.BatchNorm2d(6),
        lib.ReLU(),
        lib.MaxPool2d(2),
        lib.Flatten(),
        lib.Linear(96, 16),
        lib.GELU(),
        lib.LayerNorm(16),
        lib.Linear(16, 10),
    )


def twins() -> tuple[Any, Any]:
    theirs = build(torch.nn).double()
    ours = build(nn).double()
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    return ours, theirs


@pytest.mark.parametrize(
    ("name", "options"),
    [("SGD", {"lr": 0.1, "momentum": 0.9}), ("AdamW", {"lr": 0.01}), ("RMSprop", {"lr": 0.003})],
)
def test_the_loss_curve_equals_pytorchs(name: str, options: dict[str, Any]) -> None:
    ours, theirs = twins()
    mine = getattr(optim, name)(ours.parameters(), **options)
    reference = getattr(torch.optim, name)(theirs.parameters(), **options)
    schedule = optim.lr_scheduler.CosineAnnealingLR(mine, T_max=20)
    other = torch.optim.lr_scheduler.CosineAnnealingLR(reference, T_max=20)
    x, y = digits().tensors
    for step in range(20):
        rows = slice(32 * step, 32 * step + 32)
        data, target = x[rows].double(), y[rows]
        mine.zero_grad()
        loss = F.cross_entropy(ours(data), target)
        loss.backward()
        nn.utils.clip_grad_norm_(ours.parameters(), 1.0)
        mine.step()
        schedule.step()
        reference.zero_grad()
        want = torch.nn.functional.cross_entropy(
            theirs(torch.tensor(data.numpy())), torch.tensor(target.numpy())
        )
        want.backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        reference.step()
        other.step()
        assert loss.item() == pytest.approx(want.item(), rel=1e-7)


def test_layers_are_made_and_trained_over_torch_arrays(torch_arrays: None) -> None:
    mt.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))
    x, classes = mt.randn(16, 3), mt.multinomial(mt.ones(16, 2), 1).squeeze(1)
    net[0].bias.data.copy_(np.zeros(8))
    optimizer, losses = optim.Adam(net.parameters(), lr=0.05), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), classes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert type(net[0].weight.array).__module__ == "torch"
    assert losses[-1] < losses[0] / 2


@pytest.mark.gpu
def test_training_on_cuda_follows_the_curve_of_the_cpu(gpu: str) -> None:
    def curve(place: str) -> list[float]:
        model, _ = twins()
        model.load_state_dict(start)
        model.to(place)
        optimizer = optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for step in range(10):
            rows = slice(32 * step, 32 * step + 32)
            loss = F.cross_entropy(model(x[rows].double().to(place)), y[rows].to(place))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    x, y = digits().tensors
    start = twins()[0].state_dict()
    assert curve(gpu) == pytest.approx(curve("cpu"), rel=1e-6)


def test_a_small_network_reads_digits_better_than_95_percent() -> None:
    mt.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(4):
        for x, y in DataLoader(digits(train=True), 64, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    x, y = digits(train=False).tensors
    with mt.no_grad():
        right = model.eval()(x).argmax(1) == y
    assert right.float().mean().item() > 0.95


def test_training_steps_do_not_grow_memory() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    x, y = mt.randn(32, 16), mt.randint(0, 4, (32,))
    gc.disable()  # a graph is freed without the collector

    def steps(count: int) -> int:
        for _ in range(count):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        return int(psutil.Process().memory_info().rss)

    try:
        before = steps(STEPS // 5)
        after = steps(STEPS)
    finally:
        gc.enable()
    assert after - before < 10 * 2**20  # a leaked step would be 20 KB, all of them 30 MB


def test_training_goes_on_from_a_saved_state_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    def make() -> tuple[Any, Any]:
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        return model, optim.Adam(model.parameters(), lr=0.01)

    def train(model: Any, optimizer: Any, steps: range) -> None:
        for i in steps:
            rng = np.random.default_rng(i)
            optimizer.zero_grad()
            x = mt.tensor(rng.normal(size=(8, 4)).astype(np.float32))
            F.cross_entropy(model(x), mt.tensor(rng.integers(0, 2, 8))).backward()
            optimizer.step()

    model, optimizer = make()
    train(model, optimizer, range(5))
    save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "at5")
    train(model, optimizer, range(5, 10))
    again, other = make()
    saved = load(tmp_path / "at5")
    again.load_state_dict(saved["model"])
    other.load_state_dict(saved["optimizer"])
    train(again, other, range(5, 10))
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert a.tolist() == b.tolist()
