"""Variants of a lab's solution tried out by `variant_worker`s, as many as there are cores.

Used by release (does the starter score? is each mistake caught?) and by audit (is each mutant?).
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Self

from autograder.errors import LabError
from autograder.grading.line_process import LineProcess, ProcessEnded
from autograder.grading.pool import Pool
from autograder.records import CheckResult, Lab

_WORKER = "autograder.audit.variant_worker"


@dataclass(frozen=True)
class Variant:
    """The code cells of a notebook, and the checks that it is tried with."""

    cells: tuple[str, ...]
    checks: tuple[str, ...]
    seed: int = 0


@dataclass(frozen=True)
class Trial:
    """What all checks said of a variant; `ended` is why it did not come to an end, or empty."""

    verdicts: tuple[CheckResult, ...]
    ended: str = ""

    def of(self, check: str) -> CheckResult | None:
        """Return what `check` said, or None where it never came to it."""
        return next((v for v in self.verdicts if v.name == check), None)


class Trials:
    """A pool of workers for one lab, which import what it needs once; a context manager."""

    def __init__(self, lab: Lab, *, jobs: int | None = None) -> None:
        self._lab = lab
        command = ["-m", _WORKER, str(lab.directory.resolve())]
        self._pool = Pool(lambda: LineProcess(command), jobs or len(os.sched_getaffinity(0)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def run(self, variants: Sequence[Variant], *, timeout_s: float = 60.0) -> list[Trial]:
        """Return what became of each variant, in order; none takes longer than `timeout_s`."""
        requests = [{**asdict(variant), "timeout_s": timeout_s} for variant in variants]
        trials = [Trial(()) for _ in variants]
        for number, answer in self._pool.answers(requests):
            if isinstance(answer, ProcessEnded):
                raise LabError(f"{self._lab.name}: its trial process ended: {answer}") from answer
            verdicts = tuple(map(CheckResult.from_dict, answer["results"]))
            trials[number] = Trial(verdicts, answer.get("ended", ""))
        return trials
