"""The frozen records that the parts of the package hand to each other; imports the errors alone.

A `Lab` is read from its source, a `Submission` from whatever arrived; `Statement`s of it run in a
`Student`; checks make `CheckResult`s, and these make a `Report`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

MIB = 1 << 20


class Outcome(StrEnum):
    """What became of one check, in the words that reports use."""

    NOT_ATTEMPTED = "not attempted"
    INCORRECT = "incorrect"
    CORRECT = "correct"


@dataclass(frozen=True)
class Cell:
    """One cell of a lab's source: `kind` is "code" or "markdown", `line` is 1-based."""

    kind: str
    text: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    line: int = 1

    @property
    def tags(self) -> tuple[str, ...]:
        """The words of `tags="..."`."""
        return tuple(self.attributes.get("tags", "").replace(",", " ").split())


@dataclass(frozen=True)
class RubricItem:
    """What a person looks for in an answer, and the points for it."""

    points: float
    text: str


@dataclass(frozen=True)
class Question:
    """One question. `starter` and `solution` are the whole text of its cell, as each has it.

    `hidden_checks` of a released lab says how many checks run at submission only.
    """

    name: str
    points: float
    defines: tuple[str, ...]
    hints: tuple[str, ...] = ()
    starter: str = ""
    solution: str = ""
    manual: bool = False
    rubric: tuple[RubricItem, ...] = ()
    hidden_checks: int = 0


def without_number(name: str) -> str:
    """Return a lab's name without its number: "ring_all_reduce" for "09_ring_all_reduce"."""
    return name.lstrip("0123456789").lstrip("_-") or name


@dataclass(frozen=True)
class Lab:
    """One lab. `name` is the name of its directory, such as "09_ring_all_reduce"."""

    name: str
    title: str
    directory: Path
    cells: tuple[Cell, ...]
    questions: tuple[Question, ...]
    audience: str = "cpu"  # whom it is for, as its first cell says: see `authoring.landing`

    def question(self, name: str) -> Question | None:
        """Return the question of that name, or None."""
        return next((q for q in self.questions if q.name == name), None)


@dataclass(frozen=True)
class WrongAnswer:
    """A mistake that `check` of `question` must catch, saying `says`."""

    name: str
    question: str
    check: str
    says: str
    text: str


@dataclass(frozen=True)
class Statement:
    """One top-level statement of a notebook, run on its own, and the names that it binds.

    `needs` are the names that it reads when it runs (not those that a function reads later), so
    that a statement whose needs failed is not run at all. `cell` counts from 1 over all cells.
    """

    text: str
    binds: tuple[str, ...]
    needs: tuple[str, ...] = ()
    cell: int = 0
    line: int = 1


@dataclass(frozen=True)
class Failure:
    """A statement that did not run to its end: what it would have bound, and what happened."""

    statement: Statement
    type_name: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class Limits:
    """What one submission may use, cells and checks together; `call_s` is one call or statement."""

    wall_s: float = 60.0
    cpu_s: float = 60.0
    call_s: float = 10.0
    memory_bytes: int = 1024 * MIB
    processes: int = 64
    file_bytes: int = 64 * MIB
    output_bytes: int = MIB


@dataclass(frozen=True)
class Message:
    """One message between two ranks as the judge saw it pass; `order` counts over all ranks.

    `n_bytes` are those of the array, and of a header that the communicator would not have written.
    """

    src: int
    dst: int
    n_bytes: int
    header: bytes = b""
    array: Any = None
    order: int = 0


@dataclass(frozen=True)
class Step:
    """What a rank did with a message to or from `peer`: one of four things.

    "send": it began to send; "over": it waited for the end of a send. "post": it began to receive;
    "ask": it waited for what it receives, or looked whether it is there.
    """

    rank: int
    kind: str
    peer: int


STEPS = ("over", "post", "ask")  # those that a rank has to say; a send is seen


@dataclass(frozen=True)
class RanksRun:
    """What each rank returned, and every message that passed between ranks, in order.

    `steps` are those of all ranks, each rank's in order, where the check asked for them.
    """

    results: tuple[Any, ...]
    messages: tuple[Message, ...]
    steps: tuple[Step, ...] = ()

    def bytes_sent(self, rank: int) -> int:
        """Return the bytes that `rank` sent: its arrays', as `Message.n_bytes` counts them."""
        return sum(m.n_bytes for m in self.messages if m.src == rank)

    def messages_sent(self, rank: int) -> int:
        """Return how many messages `rank` sent."""
        return sum(m.src == rank for m in self.messages)


@dataclass(frozen=True)
class CheckResult:
    """What one check found.

    `output` is fit for the learner: for a hidden check it holds no value and no input. `detail`
    is for staff. `broken` says that the check itself failed and the learner lost nothing by it.
    `ratio` is how many times the reference's time the answer took, where the judge measured it.
    `unusable` says for the learner which answer the check broke on, as if that were at fault.
    """

    name: str
    question: str
    outcome: Outcome
    score: float
    max_score: float
    output: str = ""
    hidden: bool = False
    broken: bool = False
    title: str = ""
    detail: str = ""
    ratio: float | None = None
    unusable: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CheckResult":
        """Return the result that `asdict` wrote; keys that it does not know are left out."""
        fields = _keep_fields(cls, data)
        return cls(**{**fields, "outcome": Outcome(fields["outcome"])})

    @property
    def said(self) -> str:
        """All that the check says, for staff."""
        return self.detail if self.hidden or self.broken else self.output


@dataclass(frozen=True)
class ManualAnswer:
    """An answer that a person grades; `score` is None until one has.

    Where nothing was written the score is 0 and nobody has to mark it, but somebody may.
    """

    question: str
    points: float
    rubric: tuple[RubricItem, ...]
    answer: str
    score: float | None = None
    comment: str = ""
    items: tuple[str, ...] = ()  # of the rubric, those that it meets

    @property
    def waits(self) -> bool:
        """Whether a person has to mark it."""
        return self.score is None and bool(self.answer)


@dataclass(frozen=True)
class Report:
    """A graded submission. `sandbox` names what the code ran in; "unsandboxed" where nothing was.

    `error` is empty unless the submission could not be read at all.
    """

    lab: str
    results: tuple[CheckResult, ...]
    manual: tuple[ManualAnswer, ...] = ()
    score: float = 0.0
    max_score: float = 0.0
    sandbox: str = ""
    notes: tuple[str, ...] = ()
    error: str = ""
    title: str = ""
    submission: str = ""
    seed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Report":
        """Return the report that `to_dict` wrote; keys that it does not know are left out."""
        fields = _keep_fields(cls, data)
        fields["results"] = tuple(map(CheckResult.from_dict, data.get("results", ())))
        fields["manual"] = tuple(_manual(m) for m in data.get("manual", ()))
        fields["notes"] = tuple(data.get("notes", ()))
        return cls(**fields)

    def with_totals(self) -> "Report":
        """Return this report with `score` and `max_score` summed over its checks.

        A manual question counts in both once a person has graded it.
        """
        graded = [m for m in self.manual if m.score is not None]
        score = sum(r.score for r in self.results) + sum(m.score or 0.0 for m in graded)
        full = sum(r.max_score for r in self.results) + sum(m.points for m in graded)
        return replace(self, score=round(score, 6), max_score=round(full, 6))


@dataclass(frozen=True)
class Submission:
    """A notebook that could be read. `cells` are (kind, text); `notes` say what was left out.

    `labs` are those that it says it is of: in its metadata, and where it asks for `lab("name")`.
    """

    cells: Sequence[tuple[str, str]]
    notes: tuple[str, ...] = ()
    labs: tuple[str, ...] = ()

    def find_other_lab(self, lab: str) -> str:
        """Return the lab that it says it is of where that is not `lab`, else ""."""
        names = {without_number(name) for name in self.labs}
        return self.labs[0] if names and without_number(lab) not in names else ""


def _keep_fields(cls: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key in cls.__dataclass_fields__}


def _manual(data: Mapping[str, Any]) -> ManualAnswer:
    fields = _keep_fields(ManualAnswer, data)
    rubric = tuple(RubricItem(**item) for item in fields["rubric"])
    return ManualAnswer(**{**fields, "rubric": rubric, "items": tuple(fields.get("items", ()))})
