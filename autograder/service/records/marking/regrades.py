"""Batches of re-gradings: what they would change is shown before anybody publishes it.

A batch sends the finished submissions of a lab through the queue again. Their new gradings are kept
as drafts (see `grades.publish`), and learners see no change until the batch is published.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.records import Report
from autograder.service.database.database import Records, insert_row
from autograder.service.database.schema import PARKED, people, regrades, regradings, submissions
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.calendar import calendar
from autograder.service.records.grades.gradings import read_published, with_marks
from autograder.service.records.outbox import touch
from autograder.service.records.people import Person
from autograder.service.records.roster.teams import follow
from autograder.service.records.standings.standings import restand
from autograder.service.records.submissions.claims import FINISHED, send_again
from autograder.service.records.submissions.submissions import is_id

RUNNING, READY, PUBLISHED = "running", "ready", "published"


@dataclass(frozen=True)
class Change:
    """What a batch changes of one submission; scores as they count."""

    id: int
    login: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Difference:
    """What a batch changes of one question, before lateness; None: it is not there."""

    question: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Batch:
    """A batch of re-gradings; `waiting` of its `total` have no new grading, `parked` of these."""

    id: int
    lab: str
    question: str | None
    started_at: float
    state: str
    total: int
    waiting: int
    parked: int


@dataclass(frozen=True)
class Regrades(Records):
    """The batches of a course."""

    def start(self, lab: str, question: str | None, by: Person) -> int:
        """Send the finished submissions of a lab through the queue again; return the batch.

        While a batch of the same lab and question runs, it is that one.

        Raises:
            Refused: 409, a batch of the lab runs that grades other questions.
        """
        now = self.clock()
        with self.database.write() as connection:
            waits = submissions.c.state != PARKED  # of a batch that is running, something
            query = sa.select(regrades).join_from(regradings, regrades).join(submissions)
            query = query.where(regrades.c.lab == lab, regrades.c.published_at.is_(None), waits)
            running = connection.execute(query.where(regradings.c.open).limit(1)).first()
            if running is not None and running.question == question:
                return int(running.id)
            if running is not None:
                problem = f"batch {running.id} of {lab} is running, of other questions"
                raise Refused(409, f"regrade: {problem}. Wait until it is ready.")
            row = {"lab": lab, "question": question, "started_at": now}
            batch = insert_row(connection, regrades, row)
            sent = send_again(connection, (submissions.c.lab == lab) & FINISHED, now)
            rows = [
                {"batch": batch, "submission_id": x.id, "open": True, "before": x.score}
                for x in sent
            ]
            if rows:
                connection.execute(regradings.insert(), rows)
                begun = regrades.update().where(regrades.c.id == batch)
                connection.execute(begun.values(total=len(rows)))
            subject = f"batch {batch}: {lab}" + (f": {question}" if question else "")
            audit_log.write(connection, now, by.login, "regrade", subject, after=len(rows))
        return batch

    def all(self) -> list[Batch]:
        """Return every batch, the newest first."""
        with self.database.read() as connection:
            numbers = sa.select(regrades.c.id).order_by(regrades.c.id.desc()).limit(100)
            return [_batch(connection, number) for number in list(connection.scalars(numbers))]

    def get(
        self, batch: int, *, after: int = 0, most: int | None = None
    ) -> tuple[Batch, list[Change]]:
        """Return a batch, and what it changes so far, by submission.

        Args:
            batch: its number.
            after: changes of submissions behind this one; at most `most`.

        Raises:
            Refused: 404, there is none of that number.
        """
        with self.database.read() as connection:
            current = _batch(connection, batch)
            return current, _changes(connection, current, after, most)

    def count_changed(self, batch: int) -> int:
        """Return how many scores a batch changes so far."""
        with self.database.read() as connection:
            count = sa.select(sa.func.count()).join_from(regradings, submissions)
            differs = _differs(_batch(connection, batch))
            return connection.scalar(count.where(*differs)) or 0

    def count_rescaled(self, batch: int) -> int:
        """Return of how many submissions other points can be had once a batch is published."""
        differs = regradings.c.max_score.is_distinct_from(submissions.c.max_score)
        query = sa.select(sa.func.count()).join_from(regradings, submissions)
        return self.database.scalar(query.where(regradings.c.batch == batch, _NEWER, differs)) or 0

    def differences(self, batch: int, changes: Iterable[Change]) -> dict[int, list[Difference]]:
        """Return of what a batch changes, before it is published, the questions that differ."""
        chosen = [change.id for change in changes]
        query = sa.select(regradings.c.submission_id, regradings.c.grading_id)
        query = query.where(regradings.c.batch == batch, regradings.c.submission_id.in_(chosen))
        with self.database.read() as connection:
            return {
                number: _differences(
                    read_published(connection, number), with_marks(connection, number, grading_id)
                )
                for number, grading_id in list(connection.execute(query))
            }

    def publish(self, batch: int, by: Person) -> Batch:
        """Publish the new gradings of a batch; nothing changes if that was done before.

        A grading that is older than the one that counts by now stays a draft.

        Raises:
            Refused: 404, there is no such batch; 409, it is still running.
        """
        now = self.clock()
        with self.database.write() as connection:
            this_batch = regrades.c.id == _batch(connection, batch).id
            connection.execute(sa.select(regrades.c.id).where(this_batch).with_for_update())
            current = _batch(connection, batch)
            if current.state == RUNNING:
                problem = f"{current.waiting} of {current.total} are not graded yet"
                raise Refused(409, f"regrade: batch {batch}: {problem}. Publish it later.")
            if current.state == READY:
                for change in _changes(connection, current):
                    scores = (change.before, change.after)
                    subject = f"submission {change.id}: {change.login}"
                    audit_log.write(connection, now, by.login, "publish", subject, *scores)
                connection.execute(_leave(batch))
                connection.execute(_publish(batch))
                theirs = sa.select(regradings.c.submission_id).where(regradings.c.batch == batch)
                touch(connection, submissions.c.id.in_(theirs))
                whose = sa.select(submissions.c.person_id).where(submissions.c.id.in_(theirs))
                learners = list(connection.scalars(whose))
                for number in list(connection.scalars(theirs)):
                    learners += follow(connection, number)
                restand(connection, current.lab, *learners)
                connection.execute(regrades.update().where(this_batch).values(published_at=now))
            return _batch(connection, batch)


def _differences(before: Report | None, after: Report | None) -> list[Difference]:
    olds, news = _scores(before), _scores(after)
    names = dict.fromkeys((*news, *olds))
    rows = (Difference(name, olds.get(name), news.get(name)) for name in names)
    return [row for row in rows if row.before != row.after]


def _scores(report: Report | None) -> dict[str, float]:
    scores: defaultdict[str, float] = defaultdict(float)
    if report is not None:
        for result in report.results:
            scores[result.question] += result.score
        for answer in report.manual:
            scores[answer.question] += answer.score or 0.0
    return {question: round(score, 6) for question, score in scores.items()}


def _publish(batch: int) -> sa.Update:
    theirs = (regradings.c.batch == batch) & (regradings.c.submission_id == submissions.c.id)
    columns = ("grading_id", "score", "max_score", "pending")
    values = {name: regradings.c[name] for name in columns}
    return submissions.update().where(theirs, _NEWER).values(values)


def _leave(batch: int) -> sa.Update:
    """Note of what a batch does not change, as a newer grading counts, that it changed nothing."""
    counted = sa.select(submissions.c.id).where(
        submissions.c.id == regradings.c.submission_id, ~_NEWER
    )
    older = (regradings.c.batch == batch) & sa.exists(counted)
    return regradings.update().where(older).values(before=regradings.c.score)


# Whether a new grading is later than the one that counts: an older one stays a draft.
_NEWER = regradings.c.grading_id > sa.func.coalesce(submissions.c.grading_id, 0)


def _batch(connection: sa.Connection, batch: int) -> Batch:
    row = None
    if is_id(batch):
        row = connection.execute(sa.select(regrades).where(regrades.c.id == batch)).first()
    if row is None:
        raise Refused(404, f"regrade: there is no batch {batch}.")
    count = sa.select(sa.func.count()).select_from(regradings)
    count = count.where(regradings.c.batch == batch, regradings.c.open)
    waiting = connection.scalar(count) or 0
    aside = count.join(submissions).where(submissions.c.state == PARKED)
    parked = (connection.scalar(aside) or 0) if waiting else 0
    state = PUBLISHED if row.published_at is not None else RUNNING if waiting else READY
    return Batch(row.id, row.lab, row.question, row.started_at, state, row.total, waiting, parked)


def _differs(batch: Batch) -> tuple[sa.ColumnElement[bool], ...]:
    """Whether a score is another by a batch that is published, or will be by one that is not."""
    differs = regradings.c.before.is_distinct_from(regradings.c.score)
    graded = regradings.c.grading_id.is_not(None) if batch.state == PUBLISHED else _NEWER
    return regradings.c.batch == batch.id, graded, differs


def _changes(
    connection: sa.Connection, batch: Batch, after: int = 0, most: int | None = None
) -> list[Change]:
    columns = (submissions.c.id, submissions.c.lab, submissions.c.person_id, people.c.login)
    query = sa.select(*columns, submissions.c.submitted_at, regradings.c.before, regradings.c.score)
    query = query.join_from(regradings, submissions).join(people)
    query = query.where(*_differs(batch), regradings.c.submission_id > after)
    rows = connection.execute(query.order_by(regradings.c.submission_id).limit(most)).all()
    changes, dates = [], calendar(connection)
    for row in rows:
        rules = dates.of(row.lab, row.person_id)
        days = rules.late_days(row.submitted_at)
        scores = (rules.apply_lateness(row.before, days), rules.apply_lateness(row.score, days))
        changes.append(Change(row.id, row.login, *scores))
    return changes
