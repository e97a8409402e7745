"""Answers that people mark, one question at a time: each learner's latest graded submission."""

from collections import Counter
from dataclasses import dataclass

from autograder.records import ManualAnswer
from autograder.service.manual import question_of
from autograder.service.submissions import Entry, Ledger

_MOST_COMMENTS = 20


@dataclass(frozen=True)
class Desk:
    """One answer, with what stands before and after it, and the comments given most often."""

    entry: Entry
    answer: ManualAnswer
    rubric: list[str]
    comments: list[str]
    before: int | None
    after: int | None
    place: int
    total: int
    left: int


def desk(ledger: Ledger, lab: str, question: str, at: int) -> Desk | None:
    """Return the answer of submission `at`, or the first that waits; None where there is none."""
    found = ledger.answers(lab, question)
    if not found:
        return None
    numbers = [number for number, _, _ in found]
    open_ = [number for number, points, _ in found if points is None]
    place = numbers.index(at if at in numbers else open_[0] if open_ else numbers[0])
    entry, report = ledger.get(numbers[place]), ledger.report(numbers[place])
    assert entry is not None and report is not None  # nothing is ever taken away
    answer = question_of(report, question)
    said = Counter(comment for _, _, comment in found if comment)
    return Desk(
        entry,
        answer,
        [item.strip() for item in answer.rubric.split(";") if item.strip()],
        [text for text, _ in said.most_common(_MOST_COMMENTS)],
        numbers[place - 1] if place else None,
        numbers[place + 1] if place + 1 < len(numbers) else None,
        place + 1,
        len(numbers),
        len(open_),
    )


def next_waiting(ledger: Ledger, lab: str, question: str, at: int) -> int | None:
    """Return the next submission whose answer waits, after `at` or from the first; or None."""
    open_ = [number for number, points, _ in ledger.answers(lab, question) if points is None]
    return next((number for number in open_ if number > at), open_[0] if open_ else None)
