"""How a lab went: the spread of scores, how many passed each question, what was said most often."""

from collections import Counter
from dataclasses import dataclass

from autograder.records import Outcome
from autograder.service.gradebook import gradebook
from autograder.service.roster import Roster
from autograder.service.submissions import Ledger

_BINS = 10
_MESSAGES = 3
_MESSAGE_CHARS = 200


@dataclass(frozen=True)
class Numbers:
    """One question: learners who passed it whole, who tried it, and the messages of the others."""

    name: str
    passed: int
    tried: int
    messages: list[tuple[str, int]]


@dataclass(frozen=True)
class Overview:
    """One lab, by what counts of each learner; a score is a share of the points."""

    scores: list[float]
    questions: list[Numbers]

    @property
    def bins(self) -> list[tuple[str, int]]:
        """How many scores lie in each tenth."""
        counts = Counter(min(_BINS - 1, int(score * _BINS)) for score in self.scores)
        return [(f"{10 * n} to {10 * n + 10} %", counts[n]) for n in range(_BINS)]


def overview(roster: Roster, ledger: Ledger, lab: str) -> Overview:
    """Return how a lab went for all who have a grade."""
    learners = [person.login for person in roster.learners()]
    book = gradebook(learners, ledger.of_lab(lab))
    scores: list[float] = []
    passed, tried = Counter[str](), Counter[str]()
    messages: dict[str, Counter[str]] = {}
    for entry in (labs[lab] for labs in book.values() if lab in labs):
        report = ledger.report(entry.id)
        if report is None or entry.score is None:
            continue
        scores.append(entry.score / (entry.max_score or 1.0))
        for question in dict.fromkeys(result.question for result in report.results):
            own = [result for result in report.results if result.question == question]
            tried[question] += any(r.outcome is not Outcome.NOT_ATTEMPTED for r in own)
            passed[question] += all(r.outcome is Outcome.CORRECT for r in own)
            wrong = {r.output[:_MESSAGE_CHARS] for r in own if r.outcome is Outcome.INCORRECT}
            messages.setdefault(question, Counter()).update(wrong)
    return Overview(
        scores,
        [
            Numbers(name, passed[name], tried[name], said.most_common(_MESSAGES))
            for name, said in messages.items()
        ],
    )
