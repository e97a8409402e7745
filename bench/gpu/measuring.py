"""How a script measures: ours and PyTorch's in turn, medians, a row for each in $GPU_RECORD."""

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

DEVICE = os.environ.get("GPU_DEVICE", "cuda")
Step = Callable[[], Any]
WARM_UP, ENOUGH_S = 3, 2.0
ROUNDS = 5 if DEVICE == "cpu" else 50  # whose times say nothing


class Skipped(Exception):
    """What cannot be measured here, and why."""


def synchronize() -> None:
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def medians(ours: Step, theirs: Step) -> tuple[float, float]:
    """Return the median milliseconds of each, taken in turn, until the device has done them."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + ENOUGH_S
    for round_number in range(WARM_UP + ROUNDS):
        for step, found in zip((ours, theirs), times, strict=True):
            synchronize()
            began = time.perf_counter()
            step()
            synchronize()
            if round_number >= WARM_UP:
                found.append(1e3 * (time.perf_counter() - began))
        if times[0] and time.perf_counter() > end:
            break
    return statistics.median(times[0]), statistics.median(times[1])


def record(name: str, outcome: str, note: str = "", **numbers: float) -> None:
    row = {"name": name, "outcome": outcome, "note": note, **numbers}
    print(row, flush=True)
    if file := os.environ.get("GPU_RECORD"):
        with Path(file).open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(row) + "\n")


@contextmanager
def attempt(name: str) -> Iterator[None]:
    """Record what fails in the block, and go on after it."""
    try:
        yield
    except Skipped as why:
        record(name, "skipped", str(why))
    except ModuleNotFoundError as error:
        record(name, "skipped", str(error))
    except Exception as error:
        record(name, "failed", f"{type(error).__name__}: {error}")


def compare(
    name: str,
    make: Callable[[], tuple[Step, Step]],
    predict: Callable[[Any], float] | None = None,
) -> None:
    """Record the milliseconds of two steps, ours and PyTorch's.

    Args:
        predict: the least seconds of ours on a device that `minitorch.compile` has the limits of.
    """
    with attempt(name):
        ours_ms, torch_ms = medians(*make())
        predictions = {} if predict is None or DEVICE == "cpu" else predicted(predict)
        record(name, "measured", ours_ms=ours_ms, torch_ms=torch_ms, **predictions)


def predicted(predict: Callable[[Any], float]) -> dict[str, float]:
    """Return the predicted milliseconds on this device; nothing for one without known limits."""
    from minitorch.compile.gpu.devices import device_named
    from minitorch.errors import ArgumentError

    try:
        return {"predicted_ms": 1e3 * predict(device_named(torch.cuda.get_device_name()))}
    except ArgumentError:
        return {}
