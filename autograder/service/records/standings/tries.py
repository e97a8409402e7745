"""What each grading found of each question, in a bit: how many tries learners take to get there.

From these bits `standings` counts, for each learner and question, the try that first passed every
check; a try is a graded submission in which the question was attempted. And the time from one
submission of a lab to the next.
"""

import bisect
import itertools
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from autograder.records import Outcome, Report
from autograder.service.database.schema import outcomes, submissions

# Counted: who ever tried a question, at which try they first passed it, the times between.
EVER, GREEN, GAP = "ever", "green", "gap"

MOST_TRIES = 10  # that many or more
GAPS_S = (5 * 60, 30 * 60, 2 * 3600, 86_400, 3 * 86_400)
GAP_WORDS = ("under 5 min", "to 30 min", "to 2 h", "to a day", "to 3 days", "longer")

Thing = tuple[str, str, str]  # kind, question, words


def note(connection: sa.Connection, grading_id: int, report: Report) -> None:
    """Write down which questions were tried in a grading, and which of them passed."""
    passed: dict[str, bool] = {}
    tried = set[str]()
    for result in report.results:
        right = result.outcome is Outcome.CORRECT
        passed[result.question] = passed.get(result.question, True) and right
        if result.outcome is not Outcome.NOT_ATTEMPTED:
            tried.add(result.question)
    rows = [
        {"grading_id": grading_id, "question": question, "passed": passed[question]}
        for question in sorted(tried)
    ]
    if rows:
        connection.execute(outcomes.insert(), rows)


def count_things(
    connection: sa.Connection, lab: str, times: Mapping[int, Sequence[float]]
) -> dict[int, list[Thing]]:
    """Return what is counted of each person.

    Args:
        times: of each person, when they submitted what is graded, in order.
    """
    counted = {
        person: [
            (GAP, "", str(bisect.bisect_right(GAPS_S, after - before)))
            for before, after in itertools.pairwise(times[person])
        ]
        for person in times
    }
    query = sa.select(submissions.c.person_id, outcomes.c.question, outcomes.c.passed)
    query = query.join_from(
        submissions, outcomes, outcomes.c.grading_id == submissions.c.grading_id
    )
    mine = submissions.c.person_id.in_(list(times)) & (submissions.c.lab == lab)
    tries: dict[tuple[int, str], list[bool]] = {}
    for person, question, passed in connection.execute(
        query.where(mine).order_by(submissions.c.id)
    ):
        tries.setdefault((person, question), []).append(passed)
    for (person, question), passes in tries.items():
        counted[person].append((EVER, question, ""))
        if True in passes:
            number = min(MOST_TRIES, 1 + passes.index(True))
            counted[person].append((GREEN, question, f"{number:02}"))
    return counted
