"""Checks that count only where another one holds: `@check(question, requires="other")`.

A property such as "an empty input gives an empty output" is also one of many answers that do
nothing. Its points wait until a check that no such answer passes is correct. Imports point down:
`checks` decorates and loads, and this decides what its results are worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from autograder.errors import LabError
from autograder.records import CheckResult, Outcome


class Requiring(Protocol):
    """What this needs to know of a check."""

    @property
    def name(self) -> str:
        """Its own name."""
        ...

    @property
    def question(self) -> str:
        """The question to which it belongs."""
        ...

    @property
    def title(self) -> str:
        """The property in words."""
        ...

    @property
    def hidden(self) -> bool:
        """Whether learners are not given it."""
        ...

    @property
    def requires(self) -> str:
        """The name of the check that it requires, or nothing."""
        ...


def verify_requirements(checks: Sequence[Requiring]) -> None:
    """Raise LabError where a check requires what it cannot: names both checks.

    No such check, one of another question, or a chain that comes back to where it began.
    """
    known = {check.name: check for check in checks}
    for check in checks:
        if not check.requires:
            continue
        problem = f"check {check.name}: requires {check.requires!r}"
        other = known.get(check.requires)
        own = [c.name for c in checks if c.question == check.question and c is not check]
        if other is None:
            expected = ", ".join(own) or "none: the question has no other check"
            raise LabError(f"{problem}, which is no check here. Expected one of: {expected}.")
        if other.question != check.question:
            raise LabError(
                f"{problem}, a check of {other.question!r}, "
                f"expected one of the same question, {check.question!r}."
            )
        chain = _chain(check, known)
        if chain[-1] == check.name:
            raise LabError(f"{problem}, which comes back to it: {' -> '.join(chain)}. Cut it.")


def _chain(check: Requiring, known: Mapping[str, Requiring]) -> list[str]:
    """Return the names from `check` on, to the end or to the first that comes up again."""
    chain = [check.name]
    while (name := known[chain[-1]].requires) and name in known:
        chain.append(name)
        if name in chain[:-1]:
            break
    return chain


def required(checks: Sequence[Requiring], name: str) -> list[str]:
    """Return the names of what `name` requires, and what that requires, nearest first."""
    known = {check.name: check for check in checks}
    return _chain(known[name], known)[1:]


def settled(
    results: Mapping[str, CheckResult], checks: Sequence[Requiring]
) -> dict[str, CheckResult]:
    """Return `results`, by name of the check, with what is required taken into account.

    A check that holds while the one that it requires does not earns nothing and says why; one
    that failed keeps its own message. What is required but was not run takes nothing away.
    """
    known = {check.name: check for check in checks}
    found: dict[str, CheckResult] = {}

    def settle(name: str) -> CheckResult:
        if name not in found:
            result, other = results[name], known[name].requires
            gate = settle(other) if other in results else None
            found[name] = _waiting(result, known[other], gate) if gate else result
        return found[name]

    for name in results:
        settle(name)
    return found


def _waiting(result: CheckResult, other: Requiring, gate: CheckResult) -> CheckResult:
    if gate.outcome is Outcome.CORRECT or result.outcome is not Outcome.CORRECT:
        return result
    said = "This holds, and counts once a hidden check of this question does too."
    if not other.hidden:
        said = f"This holds, and counts once this does too: {other.title.rstrip('.')}."
    return replace(result, outcome=gate.outcome, score=0.0, broken=False, output=said, detail=said)
