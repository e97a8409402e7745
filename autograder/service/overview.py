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
    passed, tried = Counter[str](), Counter[str]()
    messages: dict[str, Counter[str]] = {}
    entries = [labs[lab] for labs in book.values() if lab in labs]
    graded = {e.id: e.score / (e.max_score or 1.0) for e in entries if e.score is not None}
    for results in ledger.results(graded):
        begun, failed, wrong = set[str](), set[str](), set[tuple[str, str]]()
        for found in results:  # plain data: six hundred reports are 15,000 of these
            question, outcome = found["question"], found["outcome"]
            messages.setdefault(question, Counter())
            if outcome != Outcome.NOT_ATTEMPTED:
                begun.add(question)
            if outcome != Outcome.CORRECT:
                failed.add(question)
            if outcome == Outcome.INCORRECT:
                wrong.add((question, found["output"][:_MESSAGE_CHARS]))
        tried.update(begun)
        passed.update(begun - failed)
        for question, text in wrong:
            messages[question][text] += 1
    return Overview(
        list(graded.values()),
        [
            Numbers(name, passed[name], tried[name], said.most_common(_MESSAGES))
            for name, said in messages.items()
        ],
    )
