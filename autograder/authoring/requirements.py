"""Checks that count only where another one holds: `@check(question, requires="other")`.

A property such as "an empty input gives an empty output" is also one of many answers that do
nothing. Its points wait until a check that no such answer passes is correct. Imports point down:
`checks` decorates and loads, and this decides what its results are worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autograder.errors import LabError
from autograder.records import CheckResult, Outcome

if TYPE_CHECKING:
    from autograder.checks import Check


def verify_requirements(checks: "Sequence[Check]") -> None:
    """Raise LabError where a check requires what it cannot: names both checks.

    No such check, one of another question, or a chain that comes back to where it began.
    """
    by_name = {check.name: check for check in checks}
    for check, name in ((c, name) for c in checks for name in c.requires):
        problem = f"check {check.name}: requires {name!r}"
        other = by_name.get(name)
        own = [c.name for c in checks if c.question == check.question and c is not check]
        if other is None:
            expected = ", ".join(own) or "none: the question has no other check"
            raise LabError(f"{problem}, which is no check here. Expected one of: {expected}.")
        if other.question != check.question:
            raise LabError(
                f"{problem}, a check of {other.question!r}, "
                f"expected one of the same question, {check.question!r}."
            )
        back = _way(name, check.name, by_name)
        if back:
            chain = " -> ".join([check.name, *back])
            raise LabError(f"{problem}, which comes back to it: {chain}. Cut it.")


def _way(start: str, end: str, by_name: "Mapping[str, Check]") -> list[str]:
    """Return the names from `start` to `end`, each required by the one before; none: no way."""
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        new = [n for n in by_name[way[-1]].requires if n in by_name and n not in seen]
        seen.update(new)
        ways += [[*way, name] for name in new]
    return []


def list_requirements(checks: "Sequence[Check]", name: str) -> list[str]:
    """Return the names of what `name` requires, and what these require, nearest first."""
    by_name = {check.name: check for check in checks}
    names = list(dict.fromkeys(by_name[name].requires))
    for other in names:
        names += [n for n in by_name[other].requires if n not in names]
    return names


def apply_requirements(
    results: Mapping[str, CheckResult], checks: "Sequence[Check]"
) -> dict[str, CheckResult]:
    """Return `results`, by name of the check, with what is required taken into account.

    A check that holds while the one that it requires does not earns nothing and says why; one
    that failed keeps its own message. What is required but was not run takes nothing away.
    """
    by_name = {check.name: check for check in checks}
    settled_results: dict[str, CheckResult] = {}

    def settle(name: str) -> CheckResult:
        if name not in settled_results:
            settled_results[name] = results[name]
            for other in by_name[name].requires:
                if other in results:
                    settled_results[name] = _withhold_points(
                        settled_results[name], by_name[other], settle(other)
                    )
        return settled_results[name]

    for name in results:
        settle(name)
    return settled_results


def _withhold_points(result: CheckResult, other: "Check", gate: CheckResult) -> CheckResult:
    if gate.outcome is Outcome.CORRECT or result.outcome is not Outcome.CORRECT:
        return result
    note = "This holds, and counts once a hidden check of this question does too."
    if not other.hidden:
        note = f"This holds, and counts once this does too: {other.title.rstrip('.')}."
    return replace(result, outcome=gate.outcome, score=0.0, broken=False, output=note, detail=note)
