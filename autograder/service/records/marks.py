"""Answers that a person grades: marks, and what a report is with them. Pure functions.

A mark belongs to a question and to the answer that was read: where grading again finds the same
answer, the mark holds; where it finds another, the question waits for a person, and the mark stays
on record. A mark of a question that checks grade sets its points; in a report it is one more
result, which is worth the difference.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.errors import Refused

_COMMENT_CHARS = 4_000
_MOST_ITEMS = 50


@dataclass(frozen=True)
class Mark:
    """What a person gave for an answer; `points` is None where they took them back."""

    points: float | None
    comment: str
    items: tuple[str, ...] = ()  # of the rubric, those that the answer meets

    @classmethod
    def read(cls, body: Any, answer: ManualAnswer) -> "Mark":
        """Return the mark that a form or JSON says; what it leaves out stays as it is.

        No points, or empty ones, take back what was given.

        Raises:
            Refused: 422, a key is unknown, or the points are not between 0 and the answer's.
        """
        if not isinstance(body, Mapping) or not set(body) <= {"points", "items", "comment"}:
            expected = '{"points": 1.5, "items": ["..."], "comment": "..."}'
            raise Refused(422, f"grade: {answer.question}: expected {expected}.")
        points = _points(body.get("points", answer.score), answer.points)
        comment, items = body.get("comment", answer.comment), body.get("items", answer.items)
        listed = isinstance(items, list | tuple) and len(items) <= _MOST_ITEMS
        short = listed and all(isinstance(x, str) and len(x) <= _COMMENT_CHARS for x in items)
        if not isinstance(comment, str) or not short:
            expected = f"the comment a text, the items at most {_MOST_ITEMS} short texts"
            raise Refused(422, f"grade: {answer.question}: expected {expected}.")
        comment = comment_of(comment, _COMMENT_CHARS)
        return cls(points, comment, tuple(item.replace("\0", "") for item in items))


def comment_of(text: str, most: int) -> str:
    """Return a comment as it is kept; a line's end counts as one character, as on pages.

    Raises:
        Refused: 422, it is longer than `most`.
    """
    comment = text.replace("\0", "").replace("\r\n", "\n").strip()
    if len(comment) > most:
        expected = f"expected at most {most}"
        raise Refused(422, f"grade: comment: got {len(comment)} characters, {expected}.")
    return comment


NOTHING = hashlib.sha256(b"").hexdigest()
"""The digest of an answer that nobody wrote."""
SET_BY_STAFF = "set by staff"
"""The name of the result that brings a question's checks to the points that staff set."""
Marks = Mapping[tuple[str, str], Mark]  # (question, digest of the answer) -> the last mark


def answer_digest(answer: ManualAnswer) -> str:
    """Return what stands for the answer that a person has read."""
    return hashlib.sha256(answer.answer.encode("utf-8", "surrogatepass")).hexdigest()


def mark_digest(number: int, answer: ManualAnswer) -> str:
    """Return what a form that shows a mark of submission `number` sends back with another."""
    mark = (number, answer.score, answer.comment, answer.items)
    return hashlib.sha256(repr(mark).encode()).hexdigest()[:16]


def alike_digest(answer: str) -> str:
    """Return the same for answers that differ only by case, layout and marks around words.

    Signs inside and in front of a word stay: -1 is not 1. Empty for an answer without a word.
    """
    words = (word.lstrip(_BEFORE).rstrip(_BEHIND) for word in answer.casefold().split())
    text = " ".join(word for word in words if word)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


_BEFORE, _BEHIND = "*_`\"'#", "*_`\"'.,;:"


def question_of(report: Report, question: str) -> ManualAnswer:
    """Return the answer to `question`; of one that checks grade, its points and no answer.

    Raises:
        Refused: 404, there is no such question.
    """
    answer = next((m for m in report.manual if m.question == question), None)
    results = [r for r in report.results if r.question == question]
    if answer is None and not results:
        raise Refused(404, f"grade: there is no question called {question[:100]!r} here.")
    if answer is None:
        most = round(sum(r.max_score for r in results), 6)
        by_staff = next((r for r in results if r.name == SET_BY_STAFF), None)
        score = None if by_staff is None else round(sum(r.score for r in results), 6)
        comment = "" if by_staff is None else by_staff.output
        return ManualAnswer(question, most, (), "", score, comment)
    return answer


def without_marks(report: Report) -> Report:
    """Return `report` as the checks made it: no marks in it, and none in its totals."""
    results = tuple(r for r in report.results if r.name != SET_BY_STAFF)
    bare = replace(report, results=results, manual=()).with_totals()
    manual = tuple(replace(m, score=None, comment="", items=()) for m in report.manual)
    return replace(bare, manual=manual)


def _apply_staff_points(report: Report, marks: Marks) -> Iterator[CheckResult]:
    """Yield the results, after those of a question whose points staff set one that says so."""
    last = {result.question: result for result in report.results}
    by_hand = {answer.question for answer in report.manual}
    for result in report.results:
        yield result
        mark = marks.get((result.question, NOTHING))
        if last[result.question] is not result or mark is None or mark.points is None:
            continue
        if result.question not in by_hand:
            yield _by_staff([r for r in report.results if r.question == result.question], mark)


def _by_staff(results: list[CheckResult], mark: Mark) -> CheckResult:
    """Return the result that brings those of a question to the points of a mark."""
    most = sum(r.max_score for r in results)
    points = min(mark.points or 0.0, most)
    more = round(points - sum(r.score for r in results), 6)
    outcome = Outcome.CORRECT if more >= 0 else Outcome.INCORRECT
    title = f"points set by staff: {points:g} of {most:g}"
    question = results[0].question
    return CheckResult(SET_BY_STAFF, question, outcome, more, 0.0, mark.comment, title=title)


def with_mark(answer: ManualAnswer, marks: Marks) -> ManualAnswer:
    """Return `answer` with the mark that it has, or without one."""
    mark = marks.get((answer.question, answer_digest(answer)), Mark(None, ""))
    score = None if mark.points is None else min(mark.points, answer.points)
    return replace(answer, score=score, comment=mark.comment, items=mark.items)


def apply_marks(report: Report, marks: Marks) -> Report:
    """Return `report` with the marks, and its totals: questions for a person count throughout."""
    manual = tuple(with_mark(answer, marks) for answer in report.manual)
    bare = without_marks(report)
    checks = replace(bare, results=tuple(_apply_staff_points(bare, marks)), manual=()).with_totals()
    score = checks.score + sum(m.score or 0.0 for m in manual)
    full = checks.max_score + sum(m.points for m in manual)
    return replace(checks, manual=manual, score=round(score, 6), max_score=round(full, 6))


def count_pending(report: Report) -> int:
    """Return how many answers still wait for a person; what nobody wrote does not."""
    return sum(m.waits for m in report.manual)


def _points(value: object, most: float) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        points = float(value) if isinstance(value, str | int | float) else -1.0
    except (ValueError, OverflowError):
        points = -1.0
    if isinstance(value, bool) or not 0 <= points <= most:
        raise Refused(422, f"grade: the points: got {str(value)[:40]!r}, expected 0 to {most:g}.")
    return points
