"""Re-grade requests: what a learner asks about a question of a graded submission, and the answers.

One thread a question of a submission. Its messages are only added; it waits for staff while the
last word is the learner's. A lab takes requests until the date that its rules name.
"""

from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Records, insert_row
from autograder.service.database.schema import people, regrade_messages, regrade_requests
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.calendar import HELD_LABS, calendar
from autograder.service.records.grades import gradings
from autograder.service.records.marks import question_of
from autograder.service.records.people import Person
from autograder.service.records.submissions.submissions import Entry

PAGE_ROWS = 50
_TEXT_CHARS = 2_000
_MOST_MESSAGES = 20


@dataclass(frozen=True)
class Message:
    """What somebody said in a thread."""

    at: float
    name: str
    text: str


@dataclass(frozen=True)
class RegradeRequest:
    """A thread about a question; `open` says that it waits for staff, `text` is its last word."""

    id: int
    submission_id: int
    lab: str
    question: str
    learner: str
    open: bool
    asked_at: float
    text: str


@dataclass(frozen=True)
class LabCount:
    """How many threads a lab has, and how many of them wait."""

    lab: str
    waiting: int
    total: int


_LAST_WORD = (
    sa.select(regrade_messages.c.text)
    .where(regrade_messages.c.request_id == regrade_requests.c.id)
    .order_by(regrade_messages.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_COLUMNS = {**regrade_requests.c, "learner": people.c.login, "text": _LAST_WORD}
_REQUEST = sa.select(*(_COLUMNS[f.name].label(f.name) for f in fields(RegradeRequest))).join_from(
    regrade_requests, people
)


@dataclass(frozen=True)
class RegradeRequests(Records):
    """The threads of a course."""

    def waiting(
        self, *, lab: str = "", after: int = 0, answered: bool = False
    ) -> list[RegradeRequest]:
        """Return the next threads that wait for staff, or were `answered`, the oldest first.

        Args:
            lab: of this lab alone.
            after: those behind the thread of this number; at most `PAGE_ROWS` come at once.
            answered: those that do not wait.
        """
        column = regrade_requests.c
        query = _REQUEST.where(column.open.is_(not answered), column.id > after)
        query = query.where(column.lab == lab) if lab else query
        rows = self.database.rows(query.order_by(column.id).limit(PAGE_ROWS))
        return [RegradeRequest(*row) for row in rows]

    def of_person(self, person_id: int) -> list[RegradeRequest]:
        """Return a learner's last threads, the newest first; none of what is held back."""
        column = regrade_requests.c
        query = _REQUEST.where(column.person_id == person_id, column.lab.not_in(HELD_LABS))
        query = query.order_by(column.id.desc())
        return [RegradeRequest(*row) for row in self.database.rows(query.limit(PAGE_ROWS))]

    def counts(self) -> list[LabCount]:
        """Return how many threads each lab has; labs without any are left out."""
        column = regrade_requests.c
        waiting = sa.func.sum(sa.case((column.open, 1), else_=0))
        query = sa.select(column.lab, waiting, sa.func.count()).group_by(column.lab)
        return [LabCount(*row) for row in self.database.rows(query.order_by(column.lab))]

    def threads(self, entry: Entry) -> dict[str, tuple[RegradeRequest, list[Message]]]:
        """Return the threads of a submission by question, each with its messages in order.

        An entry without a grade has none: it is not graded, or its grade is held back.
        """
        if entry.score is None:
            return {}
        written, request = regrade_messages.c, regrade_requests.c
        mine = _REQUEST.where(request.submission_id == entry.id)
        rows = self.database.rows(mine)
        threads = {row.question: (RegradeRequest(*row), list[Message]()) for row in rows}
        query = sa.select(request.question, written.at, people.c.name, written.text)
        query = query.join_from(regrade_messages, regrade_requests)
        query = query.join(people, people.c.id == written.person_id)
        query = query.where(request.submission_id == entry.id).order_by(written.id)
        for question, *message in self.database.rows(query):
            threads[question][1].append(Message(*message))
        return threads

    def refusal(self, entry: Entry) -> str | None:
        """Return why nothing can be asked about a submission now, or None."""
        with self.database.read() as connection:
            rules = calendar(connection, entry.person_id).of(entry.lab, entry.person_id)
        if entry.score is None and not rules.held:
            return "the submission is not graded yet"
        return rules.requests_refusal(self.clock())

    def say(self, entry: Entry, by: Person, body: Any) -> RegradeRequest:
        """Add a message to the thread about a question; a learner's first one begins it.

        Args:
            entry: the submission, which `by` may see.
            by: its learner, or staff, who may change the points with their answer.
            body: `question`, `text`, and from staff `points`, as a mark has them, or none to leave
                them as they are; `seen`, how many messages the writer has read, so that nobody
                answers what was answered meanwhile, and a form sent twice is one message.

        Raises:
            Refused: 403, the lab takes no requests now, or points come from a learner; 404, there
                is no such question, or no thread to answer; 409, the submission is not graded,
                the thread is full, or has more messages than were `seen`; 422, something is
                malformed.
        """
        question, text, points, seen = _read(body)
        now = self.clock()
        if not by.is_staff:
            refusal = self.refusal(entry) if points is None else "points are given by staff"
            if entry.person_id != by.id:
                refusal = "this is for the learner who handed it in"
            if refusal:
                raise Refused(403, f"request: {entry.lab}: {refusal}.")
        with self.database.write() as connection:
            report = gradings.lock_report(connection, entry.id)
            question_of(report, question)  # which refuses one that there is not
            number = _thread(connection, entry, question, by, now)
            only = _REQUEST.where(regrade_requests.c.id == number)
            if _is_sent(connection, number, seen, text, by):
                return RegradeRequest(*connection.execute(only).one())
            row = {"request_id": number, "person_id": by.id, "at": now, "text": text}
            connection.execute(regrade_messages.insert().values(row))
            waits = regrade_requests.update().where(regrade_requests.c.id == number)
            connection.execute(waits.values(open=not by.is_staff))
            subject = f"submission {entry.id}: {question}"
            audit_log.write(connection, now, by.login, "re-grade request", subject, after=text)
            if points is not None:
                gradings.mark(connection, [entry.id], {question: {"points": points}}, by, now)
            return RegradeRequest(*connection.execute(only).one())


def _is_sent(
    connection: sa.Connection, number: int, seen: int | None, text: str, by: Person
) -> bool:
    """Whether a message is there already, as of a form that was sent twice."""
    column = regrade_messages.c
    query = sa.select(column.person_id, column.text).where(column.request_id == number)
    messages = connection.execute(query.order_by(column.id)).all()
    fresh = [] if seen is None else messages[seen:]
    if fresh and [tuple(message) for message in fresh] != [(by.id, text)]:
        raise Refused(409, "request: it was answered meanwhile. Go back, and load the page again.")
    return bool(fresh)


def _read(body: Any) -> tuple[str, str, float | str | None, int | None]:
    """Return the question, the text, the points and what was seen, as a form or JSON says them."""
    if not isinstance(body, dict) or not set(body) <= {"question", "text", "points", "seen"}:
        raise Refused(422, 'request: expected {"question": "...", "text": "...", "points": 1.5}.')
    question, text, points = body.get("question"), body.get("text"), body.get("points")
    if not isinstance(question, str) or not isinstance(text, str):
        raise Refused(422, "request: expected a question and a text.")
    seen = body.get("seen")
    if isinstance(seen, str) and seen.isascii() and seen.isdigit() and len(seen) < 9:
        seen = int(seen)
    if seen is not None and (not isinstance(seen, int) or isinstance(seen, bool) or seen < 0):
        raise Refused(422, f"request: seen: got {str(seen)[:40]!r}, expected a number of messages.")
    text = text.replace("\0", "").strip()
    if not 0 < len(text) <= _TEXT_CHARS:
        expected = f"1 to {_TEXT_CHARS} characters"
        raise Refused(422, f"request: text: got {len(text)} characters, expected {expected}.")
    return question, text, None if points == "" else points, seen


def _thread(connection: sa.Connection, entry: Entry, question: str, by: Person, now: float) -> int:
    """Return the number of the thread about a question; the submission is locked."""
    column = regrade_requests.c
    mine = (column.submission_id == entry.id) & (column.question == question)
    number = connection.scalar(sa.select(column.id).where(mine))
    if number is None:
        if by.is_staff:
            raise Refused(404, f"request: {question[:100]}: nobody has asked about it.")
        row = {"submission_id": entry.id, "question": question, "person_id": entry.person_id}
        row |= {"lab": entry.lab, "asked_at": now, "open": True}
        return insert_row(connection, regrade_requests, row)
    count = sa.select(sa.func.count()).select_from(regrade_messages)
    messages = connection.scalar(count.where(regrade_messages.c.request_id == number)) or 0
    if messages >= _MOST_MESSAGES:
        raise Refused(409, f"request: the thread has {_MOST_MESSAGES} messages: talk in person.")
    return int(number)
