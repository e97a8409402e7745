"""Trials: what a schedule takes on this machine, once its result is known to be right.

The least of several runs counts: whatever interrupts a run makes it longer. A candidate that is
three times as slow as the best is run once. Between candidates the same reference is timed; where
it takes longer than it did at its best, the machine is busy and the candidate is run again.

May import: errors, tasks, products.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import CompileError
from .products import ProductKernel, by_numpy
from .tasks import Task

STOP = 3.0  # times the best: the search learns nothing from how slow a slow one is
BUSY = 1.25  # times its best, of the reference
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


class Clock:
    """Measures points of one task: seconds of the fastest of several runs.

    Attributes:
        best: the least seconds so far.
    """

    def __init__(self, task: Task, repeats: int = 5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.task, self.repeats, self.best = task, repeats, math.inf
        shapes = task.operand_shapes
        a, b = (rng.normal(size=shape).astype(task.dtype) for shape in shapes)
        self.arrays = (a, b)
        self.right = np.ascontiguousarray(by_numpy(task, *self.arrays))
        self.out = np.empty_like(self.right)
        side = np.asarray(rng.normal(size=(192, 192)), np.float32)
        into = np.empty_like(side)
        self._reference: Callable[[], Any] = lambda: np.multiply(side, side, out=into)
        self._quiet = min(_seconds(self._reference) for _ in range(20))

    def __call__(self, point: Mapping[str, Any]) -> float:
        """Return the seconds of one point.

        Raises:
            CompileError: the kernel's result is wrong, which is a mistake here.
        """
        kernel = ProductKernel(self.task, point)
        return self.of(self.computing_with(kernel), point)

    def computing_with(self, kernel: ProductKernel) -> Callable[[], Any]:
        """Return what computes the task: a convolution's result lies as the kernel likes it."""
        a, b = self.arrays
        out = self.out if self.task.operator == "matmul" else None
        return lambda: kernel(a, b, out=out)

    def compute_with_numpy(self) -> Any:
        """Return what NumPy's BLAS computes."""
        return by_numpy(self.task, *self.arrays, out=self.out)

    def of(self, run: Callable[[], Any], what: object = "the reference") -> float:
        """Return the seconds of a function that gives this task's result."""
        found = self.once(run, what)
        found = min(found, _seconds(run)) if found < STOP * self.best else found
        if found < STOP * self.best:
            found = min(found, *self._runs(run))
        self.best = min(self.best, found)
        return found

    def once(self, run: Callable[[], object], what: object = "the reference") -> float:
        """Return the seconds of one run whose result is right."""
        self.out.fill(np.nan)
        began = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - began
        self._check(result, what)
        return seconds

    def _runs(self, run: Callable[[], object]) -> list[float]:
        """Run some times more, and again where the machine was busy meanwhile."""
        times = []
        for _ in range(3):
            for _ in range(self.repeats):
                times.append(_seconds(run))
            now = min(_seconds(self._reference) for _ in range(3))
            self._quiet = min(self._quiet, now)
            if now < BUSY * self._quiet:
                break
        return times

    def _check(self, result: object, what: object) -> None:
        scale = float(np.abs(self.right).max()) or 1.0
        wrong = float(np.abs(result - self.right).max()) / scale
        if not wrong < TOLERANCE[self.task.dtype]:
            raise CompileError(
                f"tune: the kernel of {self.task} is off by {wrong:.2g} of the largest element, "
                f"with {what}. This is a mistake here."
            )


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
