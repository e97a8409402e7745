"""Answers that people mark, one question at a time: each learner's latest graded submission."""

from collections import Counter
from dataclasses import dataclass

from autograder.records import ManualAnswer
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


def waiting(ledger: Ledger) -> list[tuple[str, str, int, int]]:
    """Return (lab, question, answers that wait, answers) for every question that waits."""
    left: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for lab in ledger.labs_to_mark():
        for _, answers in ledger.answers(lab):
            for answer in answers:
                total[lab, answer.question] += 1
                left[lab, answer.question] += answer.score is None
    return [(lab, question, n, total[lab, question]) for (lab, question), n in left.items() if n]


def desk(ledger: Ledger, lab: str, question: str, at: int) -> Desk | None:
    """Return the answer of submission `at`, or the first that waits; None where there is none."""
    found = _of(ledger, lab, question)
    if not found:
        return None
    numbers = [number for number, _ in found]
    open_ = [number for number, answer in found if answer.score is None]
    place = numbers.index(at if at in numbers else open_[0] if open_ else numbers[0])
    entry = ledger.get(numbers[place])
    assert entry is not None
    answer = found[place][1]
    said = Counter(answer.comment for _, answer in found if answer.comment)
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
    open_ = [number for number, answer in _of(ledger, lab, question) if answer.score is None]
    return next((number for number in open_ if number > at), open_[0] if open_ else None)


def _of(ledger: Ledger, lab: str, question: str) -> list[tuple[int, ManualAnswer]]:
    return [
        (number, answer)
        for number, answers in ledger.answers(lab)
        for answer in answers
        if answer.question == question
    ]
