"""Course totals: one learner's (`Reckoning`), and everybody's as the database works them out.

The latter are kept, to sort by. Those are worked out anew that are stale, by name or because of
what all of them follow from: the rule, and the labs that have closed. A server does it before
anybody asks (`TotalsWorker`), some people in each transaction, so that writers wait for one of
these at most; whoever asks does it for few. Each select of the one statement gives (person_id,
share, weight) of what counts: scores of a lab, what staff decided, labs that were missed. Where a
lab gives everybody as many points, an index has all that is read.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from autograder.service.database.schema import (
    counts,
    course_totals,
    decisions,
    people,
    standings,
    submissions,
)
from autograder.service.periodic import Periodic
from autograder.service.records import stale_totals
from autograder.service.records.calendar import Calendar, calendar
from autograder.service.records.grades.course_rule import CourseRule, Total, course_rule
from autograder.service.records.people import LEARNER
from autograder.service.records.standings.standings import POINTS, lab_points
from autograder.service.records.submissions.submissions import Entry, Submissions


@dataclass(frozen=True)
class Reckoning:
    """All that a total takes: the rule, the dates, what each lab gives at most, and the time.

    `veiled`: for learners' eyes; labs whose grades are held back are left out throughout.
    """

    rule: CourseRule
    dates: Calendar
    points: Mapping[str, float]
    now: float
    veiled: bool

    @classmethod
    def of(cls, submissions: Submissions) -> "Reckoning":
        """Return what holds now, for those who see these submissions."""
        with submissions.database.read() as connection:
            return cls.by(connection, submissions.clock(), submissions.veiled)

    @classmethod
    def by(cls, connection: sa.Connection, now: float, veiled: bool = False) -> "Reckoning":
        """Return what holds at `now` for staff, or `veiled`."""
        rule, points = course_rule(connection), lab_points(connection)
        return cls(rule, calendar(connection), points, now, veiled)

    def total(self, person_id: int, labs: Mapping[str, Entry]) -> Total:
        """Return the total of what counts of each lab that somebody has handed in."""
        grades = []
        for lab in sorted({*labs, *self.points}):
            rules = self.dates.of(lab, person_id)
            entry = labs.get(lab)
            if self.veiled and rules.held:
                continue
            if entry is None and rules.is_over(self.now):
                grades.append((lab, 0.0, self.points[lab]))
            elif entry is not None and entry.score is not None:  # an excused one has none
                grades.append((lab, entry.score, entry.max_score or 0.0))
        return self.rule.total(grades)


NOTHING = -1.0  # the share of whoever has nothing that counts
_DIGITS = 9  # of a share: what a sum's order changes lies behind them
_FEW = 500  # people, here and there, whose totals one transaction works out
_MANY = 10_000  # people in a row: far fewer cost as much, for a database then looks each one up
_LOOK_S = 5.0  # a look reads the rule, the dates and one entry of an index
_Chosen = Callable[[Any], sa.ColumnElement[bool]]  # of a column of people's ids
_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}

log = logging.getLogger(__name__)


def bring_up_to_date(submissions_: Submissions) -> None:
    """Work those course totals out anew that are stale, however long it takes."""
    while work_some_out(submissions_, wait=True):
        pass


def bring_few_up_to_date(submissions_: Submissions) -> bool:
    """Work those course totals out anew that are stale, if they are few; else return False."""
    with submissions_.database.read() as connection:
        _, basis, used_basis = _read(connection, submissions_.clock())
        stale = _stale(basis, used_basis)
        count = len(stale.people) + stale_totals.count_named(connection, _FEW + 1)
        if stale.above is not None:
            count += len(_above(connection, stale.above, _FEW + 1))
    if count > _FEW:
        return False
    return count == 0 or not work_some_out(submissions_, wait=True)


def work_some_out(submissions_: Submissions, *, wait: bool = False) -> bool:
    """Work out some of the course totals that are stale; return whether more of them are.

    Without `wait` nothing is done while somebody else works totals out.
    """
    database, clock = submissions_.database, submissions_.clock
    with database.read() as connection:
        _, basis, used_basis = _read(connection, clock())
        if basis == used_basis and not stale_totals.count_named(connection, 1):
            return False
    with database.write() as connection:
        if not stale_totals.lock(connection, wait=wait):
            return False
        named = stale_totals.take(connection, _FEW)  # before what totals follow from is read
        reckoning, basis, used_basis = _read(connection, clock())
        stale = _stale(basis, used_basis)
        above = [] if stale.above is None else _above(connection, stale.above, _MANY)
        if some := {*named, *stale.people}:
            chosen = sa.select(people.c.id).where(people.c.id.in_(some)).cte()
            _keep(connection, reckoning, lambda person: person.in_(sa.select(chosen.c.id)))
        if above:  # a range is cheaper than a list
            _keep(connection, reckoning, lambda person: person.between(above[0], above[-1]))
        if more := len(above) == _MANY:
            basis["above"] = above[-1]
        stale_totals.put_basis(connection, json.dumps(basis))
    return more or len(named) == _FEW


class TotalsWorker(Periodic):
    """A thread that works out what is stale in the courses that it serves, some people at a time.

    It is woken by what changes everybody's here, and looks by itself for what other servers and the
    clock do: a lab that closes changes totals too.
    """

    def __init__(self) -> None:
        super().__init__("totals", self.work, _LOOK_S)
        self._served: list[Submissions] = []

    @contextmanager
    def serving(self, submissions: Submissions) -> Iterator[None]:
        """Keep the totals of a course up to date meanwhile."""
        self._served.append(submissions)
        try:
            yield
        finally:
            self._served.remove(submissions)

    def work(self) -> bool:
        """Work out some totals of each course; return whether one of them has more."""
        more = [self._work(submissions) for submissions in list(self._served)]
        return any(more)

    def _work(self, submissions: Submissions) -> bool:
        try:
            return work_some_out(submissions)
        except Exception:  # the database is away, or this course's is broken: others go on
            log.exception("totals: those of a course cannot be worked out now")
            return False


def _read(
    connection: sa.Connection, now: float
) -> tuple[Reckoning, dict[str, Any], dict[str, Any]]:
    """Return what totals follow from now, its basis, and the one that they were worked out from."""
    reckoning = Reckoning.by(connection, now)
    return reckoning, _basis(reckoning), json.loads(stale_totals.basis(connection))


@dataclass(frozen=True)
class _Stale:
    """Whose totals are stale, beside those who are named: some, and those with an id above one."""

    people: Collection[int]
    above: int | None


def _stale(basis: Mapping[str, Any], used: Mapping[str, Any]) -> _Stale:
    if any(basis[part] != used.get(part) for part in ("rule", "closed")):
        return _Stale((), 0)
    moved = (set(now_open) ^ set(used["open"][lab]) for lab, now_open in basis["open"].items())
    people = set[int]().union(*moved)
    return _Stale(people, used.get("above")) if len(people) <= _FEW else _Stale((), 0)


def _above(connection: sa.Connection, person_id: int, most: int) -> list[int]:
    """Return the next ids of people after one."""
    query = sa.select(people.c.id).where(people.c.id > person_id)
    return list(connection.scalars(query.order_by(people.c.id).limit(most)))


def _basis(reckoning: Reckoning) -> dict[str, Any]:
    """Return what all totals follow from, as JSON holds it.

    That is the rule, and of labs that have closed what they give, and for whom they are still open.
    What is kept has `above` too, while everybody whose id is above it is still to follow.
    """
    dates, now = reckoning.dates, reckoning.now
    over = sorted(lab for lab, rules in dates.rules.items() if rules.is_over(now))
    closed = {lab: reckoning.points[lab] for lab in over if lab in reckoning.points}
    still_open = {lab: dates.still_open(lab, now) for lab in closed}
    return {"rule": reckoning.rule.to_dict(), "closed": closed, "open": still_open}


def _keep(connection: sa.Connection, reckoning: Reckoning, chosen: _Chosen) -> None:
    """Write down the totals of some people where they differ."""
    shares = _shares(connection, reckoning, chosen)
    share = sa.func.coalesce(shares.c.share, NOTHING)
    query = sa.select(people.c.id, share).join_from(people, shares, isouter=True)
    query = query.where(chosen(people.c.id))
    insert = _INSERT[connection.dialect.name](course_totals)
    values = {"share": insert.excluded.share}
    differs = course_totals.c.share != insert.excluded.share
    insert = insert.from_select(["person_id", "share"], query)
    key = [course_totals.c.person_id]
    insert = insert.on_conflict_do_update(index_elements=key, set_=values, where=differs)
    connection.execute(insert)


def _shares(connection: sa.Connection, reckoning: Reckoning, chosen: _Chosen) -> sa.Subquery:
    """Select (person_id, share) of the `chosen` of whom something counts; rounded."""
    rule = reckoning.rule
    kinds = sa.select(counts.c.lab).where(counts.c.kind == POINTS).group_by(counts.c.lab)
    alike = set(connection.scalars(kinds.having(sa.func.count() == 1)))
    decided = set(connection.scalars(sa.select(decisions.c.lab).distinct()))
    selects = [_select_decisions(rule), *_select_missing(reckoning)]
    for lab, points in reckoning.points.items():
        most = points if lab in alike else None
        selects.append(_scores_of(rule, lab, most, decided=lab in decided))
    selects = [query.where(chosen(query.selected_columns.person_id)) for query in selects]
    counted = _without_lowest(sa.union_all(*selects).subquery(), rule.drop_lowest)
    earned = sa.func.sum(counted.c.share * counted.c.weight) / sa.func.sum(counted.c.weight)
    rounded = sa.func.round(sa.cast(earned, sa.Numeric), _DIGITS).label("share")
    return sa.select(counted.c.person_id, rounded).group_by(counted.c.person_id).subquery()


def _select_weighed(
    rule: CourseRule, lab: str, person: Any, score: Any, full: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Select the share and the weight of a score in a lab, unless it does not count."""
    weight = sa.literal(rule.weights.get(lab, 1.0), sa.Float) if rule.weights else full
    columns = (person.label("person_id"), (score / full).label("share"), weight.label("weight"))
    return sa.select(*columns).where(full > 0, weight > 0)


def _select_decisions(rule: CourseRule) -> sa.Select[Any]:
    """Select the points that staff set."""
    column = decisions.c
    by_lab = sa.case(dict(rule.weights), value=column.lab, else_=1.0) if rule.weights else None
    weight = column.max_score if by_lab is None else by_lab
    share = column.points / column.max_score
    query = sa.select(column.person_id, share.label("share"), weight.label("weight"))
    query = query.join_from(decisions, people, people.c.id == column.person_id)
    return query.where(
        people.c.role == LEARNER, column.points.is_not(None), column.max_score > 0, weight > 0
    )


def _scores_of(rule: CourseRule, lab: str, most: float | None, *, decided: bool) -> sa.Select[Any]:
    """Select the scores of a lab that gives `most`, or several; not those `decided` otherwise."""
    full = submissions.c.max_score if most is None else sa.literal(most, sa.Float)
    query = _select_weighed(rule, lab, standings.c.person_id, standings.c.score, full)
    if most is None:
        query = query.join_from(standings, submissions, submissions.c.id == standings.c.best_id)
    query = query.where(standings.c.lab == lab, standings.c.score.is_not(None))
    theirs = decisions.c.person_id == standings.c.person_id
    otherwise = sa.exists().where(theirs, decisions.c.lab == lab)
    return query.where(~otherwise) if decided else query


def _select_missing(reckoning: Reckoning) -> list[sa.Select[Any]]:
    """Select, with no points, the labs that have closed for somebody who never handed them in."""
    selects = []
    basis = _basis(reckoning)
    for lab, points in basis["closed"].items():
        late: Any = sa.bindparam(None, basis["open"][lab], expanding=True, literal_execute=True)
        nothing = [
            ~sa.exists().where(table.c.person_id == people.c.id, table.c.lab == lab)
            for table in (submissions, decisions)
        ]
        full = sa.literal(points, sa.Float)
        query = _select_weighed(reckoning.rule, lab, people.c.id, sa.literal(0.0, sa.Float), full)
        selects.append(query.where(people.c.role == LEARNER, *nothing, people.c.id.not_in(late)))
    return selects


def _without_lowest(counted: sa.Subquery, drop: int) -> sa.Subquery:
    """Leave a person's lowest few out, never the last; of equals the one that counts most goes."""
    if not drop:
        return counted
    order = (counted.c.share, counted.c.weight.desc())
    place = sa.func.row_number().over(partition_by=counted.c.person_id, order_by=order)
    most = sa.func.count().over(partition_by=counted.c.person_id)
    ranked = sa.select(counted, place.label("place"), most.label("most")).subquery()
    stays = (ranked.c.place > drop) | (ranked.c.place == ranked.c.most)
    return sa.select(ranked).where(stays).subquery()
