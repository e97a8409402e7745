"""Every submission ever made, what was found in it, and what is published of it.

Nothing here is overwritten: a grading adds a row, a mark adds a row, and a submission points to the
grading that counts. Its totals are kept beside it for lists, and made anew in the transaction that
publishes a grading or adds a mark.

What learners are shown of a lab whose grades are held back is decided here alone: whatever goes to
a learner is read from `Submissions.for_learners`, which has no grade of such a lab.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import sqlalchemy as sa

from autograder.records import Report
from autograder.service.database.database import Database, Records
from autograder.service.database.schema import (
    GRADED,
    GRADING,
    HELD,
    PARKED,
    SHARED,
    STORED,
    lab_rules,
    people,
    regradings,
    reports,
    standings,
    submissions,
)
from autograder.service.errors import Refused
from autograder.service.records.calendar import HELD_LABS, Calendar, calendar
from autograder.service.records.grades import gradings
from autograder.service.records.grades.decisions import Decision, read_decisions
from autograder.service.records.people import LEARNER, Person
from autograder.service.records.roster import teams
from autograder.service.records.submissions.intake import (
    Receipt,
    draft_notebook,
    drop_draft,
    keep_draft,
    take_in,
    wait_for_turn,
)

# SQLite's largest integer: a larger id cannot exist, and binding it would raise.
_LARGEST_ID = 2**63 - 1
_AT_ONCE = 500  # rows of a long list, with whose dates are read together


@dataclass(frozen=True)
class Entry:
    """What is known of a submission, without its notebook and its report.

    `score`, `max_score` and `pending` (questions that wait for a person) are those of the grading
    that is published; while there is none, `score` is None. `score` is what counts: `raw_score`
    less what `late_days` cost.
    """

    id: int
    person_id: int
    learner: str
    lab: str
    sha256: str
    state: str
    reason: str | None
    submitted_at: float
    finished_at: float | None
    score: float | None
    max_score: float | None
    pending: int
    tries: int
    late_days: int = 0
    raw_score: float | None = None
    held_back: bool = False
    decision: str = ""  # of staff about the whole lab: EXCUSED or SET

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.state in (GRADED, PARKED)

    @property
    def page_state(self) -> str:
        """What a page that waits for a change has seen; `Submissions.states` says it anew."""
        return HELD_BACK if self.held_back and self.state == GRADED else self.state

    def without_grade(self) -> "Entry":
        """Return what a learner is shown of it while its lab's grades are held back."""
        return replace(self, score=None, max_score=None, raw_score=None, pending=0)


# Learners see no change before a batch of re-gradings is published; whether something is held back
# is for staff to know, who are told why.
_IN_A_BATCH = sa.exists().where(regradings.c.submission_id == submissions.c.id, regradings.c.open)
_STATE = sa.case(
    (
        submissions.c.state.in_((STORED, HELD, GRADING))
        & submissions.c.score.is_not(None)
        & _IN_A_BATCH,
        GRADED,
    ),
    (submissions.c.state.in_((HELD, SHARED)), STORED),
    else_=submissions.c.state,
)
EXCUSED, SET = "excused", "set by staff"  # decisions of staff about a whole lab
HELD_BACK = "held back"  # how a page calls a graded submission whose grade learners do not see
_PAGE_STATE = sa.case(
    (sa.and_(_STATE == GRADED, submissions.c.lab.in_(HELD_LABS)), HELD_BACK), else_=_STATE
)
_COLUMNS = {**submissions.c, "learner": people.c.login, "state": _STATE}
_ENTRY = [  # but for the last four, which follow from the lab's rules and from staff
    _COLUMNS[field.name].label(field.name) for field in fields(Entry)[:-4]
]


def is_id(number: int) -> bool:
    """Return whether a row can have this number."""
    return 0 < number <= _LARGEST_ID


@dataclass(frozen=True)
class Submissions(Records):
    """Submissions, their gradings and their marks; `veiled`: without those that are held back."""

    veiled: bool = False

    def for_learners(self) -> "Submissions":
        """Return the submissions as learners see them, and whatever speaks to learners."""
        return replace(self, veiled=True)

    def seen_by(self, person: Person) -> "Submissions":
        """Return the submissions as this person sees them."""
        return self if person.is_staff else self.for_learners()

    def add(
        self,
        person: Person,
        lab: str,
        notebook: bytes,
        *,
        retry_key: str | None = None,
        most_bytes: int | None = None,
    ) -> Receipt:
        """Store a submission: when this returns, it is on the disk.

        One that is there already is not stored again: under the same `retry_key`, or the same
        bytes of the same lab while they wait. What dates or attempts refuse becomes the person's
        draft of the lab, and what is stored takes the place of their draft.

        Raises:
            Refused: 422, the key was used for something else; 403, the lab's dates or attempts;
                413, all of this person's notebooks would be larger than `most_bytes`.
        """
        with self.database.write() as connection:
            wait_for_turn(connection, person)
            done = take_in(connection, self.clock(), person, lab, notebook, retry_key, most_bytes)
            if isinstance(done, str):
                keep_draft(connection, person.id, lab, notebook, self.clock(), done)
        if isinstance(done, str):
            note = "What you sent is kept as your draft of the lab; it is not handed in."
            raise Refused(403, f"{_too_late(lab, done)} {note}")
        return done

    def add_draft(self, person: Person, lab: str) -> Receipt:
        """Hand in now the draft that is kept of a lab; it is a draft no more.

        Raises:
            Refused: 404, there is none; 403, the lab's dates or attempts, and the draft stays.
        """
        with self.database.write() as connection:
            wait_for_turn(connection, person)  # before it is read: no newer one comes in between
            notebook = draft_notebook(connection, person.id, lab)
            done = take_in(connection, self.clock(), person, lab, notebook)
            if isinstance(done, Receipt):
                drop_draft(connection, person.id, lab)
        if isinstance(done, str):
            raise Refused(403, f"{_too_late(lab, done)} Your draft is still kept.")
        return done

    def attempts(self, person_id: int) -> dict[str, int]:
        """Return how often a person has handed in each lab; what is blank does not count."""
        query = sa.select(submissions.c.lab, sa.func.count()).group_by(submissions.c.lab)
        query = query.where(submissions.c.person_id == person_id, ~submissions.c.blank)
        rows = self.database.rows(query)
        return {row[0]: row[1] for row in rows}

    def get(self, submission_id: int) -> Entry | None:
        """Return the submission of that id, or None."""
        if not is_id(submission_id):
            return None
        return next(self.entries(submissions.c.id == submission_id), None)

    def all(self, *, person_id: int | None = None) -> list[Entry]:
        """Return every submission, or one person's, the newest first."""
        return list(self.entries(*_of(person_id)))

    def page(self, size: int, *, before: int = 0, person_id: int | None = None) -> list[Entry]:
        """Return the newest submissions, or those before the one of a number; at most `size`."""
        older = [submissions.c.id < before] if before else []
        return list(self.entries(*older, *_of(person_id), limit=size))

    def start_of_page(self, number: int, size: int, *, person_id: int | None = None) -> int:
        """Return before which submission a page of that number begins, as `page` takes it."""
        query = sa.select(submissions.c.id).where(*_of(person_id)).order_by(submissions.c.id.desc())
        return start_of_page(self.database, query, number, size)

    def of_people(self, person_ids: Collection[int], *, lab: str = "") -> list[Entry]:
        """Return every submission of these people, or those of a lab, the newest first."""
        conditions = [submissions.c.lab == lab] if lab else []
        return list(self.entries(submissions.c.person_id.in_(person_ids), *conditions))

    def counting(self, person_ids: Collection[int], lab: str = "") -> Iterator[Entry]:
        """Yield what counts of each lab for these people; where nothing is graded, all there is."""
        stands = sa.exists().where(
            standings.c.person_id == submissions.c.person_id,
            standings.c.lab == submissions.c.lab,
            standings.c.best_id.is_not(None),
            standings.c.best_id != submissions.c.id,
        )
        conditions = [submissions.c.lab == lab] if lab else []
        return self.entries(submissions.c.person_id.in_(person_ids), *conditions, ~stands)

    def decisions(self, person_ids: Collection[int] | None, lab: str = "") -> list[Decision]:
        """Return what staff decided about the labs of these people, or of all."""
        return read_decisions(self.database, person_ids, lab, veiled=self.veiled)

    def parked(self) -> list[Entry]:
        """Return what waits for staff, the newest first."""
        return list(self.entries(submissions.c.state == PARKED))

    def entries(
        self, *conditions: sa.ColumnElement[bool], limit: int | None = None
    ) -> Iterator[Entry]:
        """Yield the submissions that meet the conditions, the newest first."""
        query = sa.select(*_ENTRY).join_from(submissions, people).where(*conditions)
        query = query.order_by(submissions.c.id.desc()).limit(limit)
        with self.database.read() as connection:
            for some in connection.execute(query).partitions(_AT_ONCE):
                dates = calendar(connection, *{row.person_id for row in some})
                for row in some:
                    entry = _entry(dates, row)
                    yield entry.without_grade() if self.veiled and entry.held_back else entry

    def states(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the states of some submissions, as learners' pages have them."""
        ids = [number for number in numbers if is_id(number)]
        query = sa.select(submissions.c.id, _PAGE_STATE).where(submissions.c.id.in_(ids))
        return {row[0]: row[1] for row in self.database.rows(query)}

    def latest(self, lab: str) -> list[tuple[int, str]]:
        """Return each learner's latest submission of a lab, with their login; a team's once."""
        newest = sa.select(sa.func.max(submissions.c.id)).where(submissions.c.lab == lab)
        query = sa.select(submissions.c.id, people.c.login).join_from(submissions, people)
        query = query.where(
            submissions.c.id.in_(newest.group_by(submissions.c.person_id)),
            teams.NO_COPY,
            people.c.role == LEARNER,
        )
        return [tuple(row) for row in self.database.rows(query.order_by(submissions.c.id))]

    def labs(self) -> list[str]:
        """Return the labs of which anybody has submitted, in order."""
        names = list[str]()
        with self.database.read() as connection:  # a step in an index for each
            first = sa.select(sa.func.min(submissions.c.lab))
            while name := connection.scalar(first.where(submissions.c.lab > (names or [""])[-1])):
                names.append(name)
        return names

    def notebook(self, submission_id: int) -> bytes | None:
        """Return what was submitted, byte by byte."""
        return teams.notebook(self.database, submission_id)

    def report(self, submission_id: int) -> Report | None:
        """Return the report that is published, with the marks that people gave, or None."""
        if not is_id(submission_id):
            return None
        lab = sa.select(submissions.c.lab).where(submissions.c.id == submission_id)
        with self.database.read() as connection:
            if self.veiled and connection.scalar(HELD_LABS.where(lab_rules.c.lab.in_(lab))):
                return None
            return gradings.read_published(connection, submission_id)

    def results(self, submission_ids: Collection[int]) -> Iterator[list[dict[str, Any]]]:
        """Yield what the checks found, as the published reports have it as plain data."""
        mine = submissions.c.id.in_(submission_ids)
        query = sa.select(reports.c.report).join_from(
            submissions, reports, reports.c.grading_id == submissions.c.grading_id
        )
        with self.database.read() as connection:
            for text in connection.scalars(query.where(mine)):
                yield json.loads(text)["results"]

    def mark(self, submission_id: int, marks: Mapping[str, Any], marker: Person) -> None:
        """Add marks for questions of a graded submission; one that checks grade gets these points.

        Args:
            submission_id: of the submission.
            marks: for each question what `Mark.read` takes; all of them are added, or none.
            marker: who gave them.

        Raises:
            Refused: 404, there is no such question; 409, it is not graded; 422, a mark is
                malformed.
        """
        number = submission_id if is_id(submission_id) else 0
        with self.database.write() as connection:
            gradings.mark(connection, [number], marks, marker, self.clock())


def _entry(dates: Calendar, row: Any) -> Entry:
    rules = dates.of(row.lab, row.person_id)
    days = rules.late_days(row.submitted_at)
    counted = rules.apply_lateness(row.score, days)
    more = {"late_days": days, "raw_score": row.score, "held_back": rules.held}
    return replace(Entry(*row), score=counted, **more)


def _too_late(lab: str, refusal: str) -> str:
    return f"submit: {lab}: {refusal}. Your instructor can extend it."


def _of(person_id: int | None) -> list[sa.ColumnElement[bool]]:
    return [] if person_id is None else [submissions.c.person_id == person_id]


def start_of_page(database: Database, ids: sa.Select[Any], number: int, size: int) -> int:
    """Return before which id a page begins; 0 where it is the first, 1 where none is left."""
    if number == 1:
        return 0
    return database.scalar(ids.offset((number - 1) * size - 1).limit(1)) or 1


def pages_of(total: int, size: int) -> int:
    """Return how many pages of `size` hold `total` things; an empty list has one."""
    return max(1, -(-total // size))
