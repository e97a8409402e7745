"""Answers that a person grades: a score and a comment go into the report, and survive a regrade."""

from dataclasses import replace

from autograder.records import Report
from autograder.service.errors import Refused

_COMMENT_CHARS = 4_000


def graded_by_person(report: Report, question: str, score: str, comment: str) -> Report:
    """Return `report` with a person's score for one answer, in points; an empty one takes it back.

    Raises:
        Refused: 404, there is no such answer; 422, the score is none from 0 to its points.
    """
    answer = next((m for m in report.manual if m.question == question), None)
    if answer is None:
        raise Refused(404, f"grade: no answer called {question[:100]!r} waits for a person here.")
    points = _points(score, answer.points) if score.strip() else None
    graded = replace(answer, score=points, comment=comment.strip()[:_COMMENT_CHARS])
    manual = tuple(graded if m is answer else m for m in report.manual)
    return replace(report, manual=manual).with_totals()


def keeping_manual(new: Report, old: Report) -> Report:
    """Return `new` with the scores that a person gave in `old` to answers that are the same."""
    given = {(m.question, m.answer): m for m in old.manual if m.score is not None or m.comment}
    manual = tuple(given.get((m.question, m.answer), m) for m in new.manual)
    return replace(new, manual=manual).with_totals() if given else new


def _points(text: str, most: float) -> float:
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points <= most:
        raise Refused(422, f"grade: the points: got {text[:40]!r}, expected 0 to {most:g}.")
    return points
