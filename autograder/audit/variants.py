"""Variants of a lab's solution tried out by `trial_worker` processes, as many as there are cores.

Used by release (does the starter score? is each mistake caught?) and by audit (is each mutant?).
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from autograder.errors import LabError
from autograder.grading.line_process import LinePool, LineProcess, ProcessEnded
from autograder.records import Lab, Outcome

WORKER = "autograder.audit.variant_worker"


@dataclass(frozen=True)
class Variant:
    """The code cells of a notebook, and the checks that it is tried with."""

    cells: tuple[str, ...]
    checks: tuple[str, ...]
    seed: int = 0


@dataclass(frozen=True)
class Verdict:
    """What one check said of a variant; `said` is all of it, for staff."""

    check: str
    outcome: Outcome
    broken: bool
    said: str


@dataclass(frozen=True)
class Trial:
    """What all checks said of a variant; `ended` is why it did not come to an end, or empty."""

    verdicts: tuple[Verdict, ...]
    ended: str = ""

    def of(self, check: str) -> Verdict | None:
        """Return what `check` said, or None where it never came to it."""
        return next((v for v in self.verdicts if v.check == check), None)


class Trials:
    """A pool of workers for one lab, which import what it needs once; a context manager."""

    def __init__(self, lab: Lab, *, jobs: int | None = None) -> None:
        self._lab = lab
        self._jobs = jobs or len(os.sched_getaffinity(0))
        directory = str(lab.directory.resolve())
        self._workers = LinePool(lambda: LineProcess(WORKER, [directory]), self._jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.close()

    def run(self, variants: Sequence[Variant], *, timeout_s: float = 60.0) -> list[Trial]:
        """Return what became of each variant, in order; none takes longer than `timeout_s`."""
        with ThreadPoolExecutor(self._jobs) as pool:
            return list(pool.map(partial(self._run, timeout_s), variants))

    def _run(self, timeout_s: float, variant: Variant) -> Trial:
        request = {
            "cells": variant.cells,
            "checks": variant.checks,
            "seed": variant.seed,
            "timeout_s": timeout_s,
        }
        try:
            answer = self._workers.ask(request)
        except ProcessEnded as error:
            raise LabError(f"{self._lab.name}: its trial process ended: {error}") from error
        return Trial(tuple(_verdicts(answer["results"])), answer.get("ended", ""))


def _verdicts(results: Sequence[dict[str, Any]]) -> Iterator[Verdict]:
    for found in results:
        yield Verdict(found["name"], Outcome(found["outcome"]), found["broken"], found["said"])
