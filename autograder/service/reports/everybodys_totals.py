"""Everybody's course total as the database works it out, to sort by; `totals` is one learner's.

Totals are kept. Whoever wants to see them has those worked out anew that are stale, by name or
because of what all of them follow from: the rule, and the labs that have closed. One statement does
it, for some or for all. Each of its selects gives (person_id, share, weight) of what counts: scores
of a lab, what staff decided, labs that were missed. Where a lab gives everybody as many points, an
index has all that is read.
"""

import json
from collections.abc import Collection, Mapping
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
from autograder.service.records import stale_totals
from autograder.service.records.course_rule import CourseRule
from autograder.service.records.people import LEARNER
from autograder.service.records.standings import POINTS
from autograder.service.records.submissions import Submissions
from autograder.service.reports.totals import Reckoning

NOTHING = -1.0  # the share of whoever has nothing that counts
_DIGITS = 9  # of a share: what a sum's order changes lies behind them
_FEW = 500  # people: more are faster worked out with everybody
_INSERT: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}


def bring_up_to_date(submissions_: Submissions) -> None:
    """Work those course totals out anew that are stale."""
    database, clock = submissions_.database, submissions_.clock
    with database.read() as connection:
        basis = _basis(Reckoning.by(connection, clock()))
        known = json.loads(stale_totals.basis(connection))
        if basis == known and not stale_totals.any_named(connection):
            return
    with database.write() as connection:
        stale_totals.lock(connection)
        named = stale_totals.take(connection)  # before anything is read that totals follow from
        reckoning = Reckoning.by(connection, clock())
        basis, known = _basis(reckoning), json.loads(stale_totals.basis(connection))
        _keep(connection, reckoning, _stale(basis, known, named))
        stale_totals.put_basis(connection, json.dumps(basis))


def _basis(reckoning: Reckoning) -> dict[str, Any]:
    """Return what all totals follow from, as JSON holds it.

    That is the rule, and of labs that have closed what they give, and for whom they are still open.
    """
    dates, now = reckoning.dates, reckoning.now
    over = sorted(lab for lab, rules in dates.rules.items() if rules.is_over(now))
    closed = {lab: reckoning.points[lab] for lab in over if lab in reckoning.points}
    still_open = {lab: dates.still_open(lab, now) for lab in closed}
    return {"rule": reckoning.rule.to_dict(), "closed": closed, "open": still_open}


def _stale(basis: Mapping[str, Any], known: Mapping[str, Any], named: set[int]) -> set[int] | None:
    """Return whose totals are stale, None for everybody's."""
    if any(basis[part] != known.get(part) for part in ("rule", "closed")):
        return None
    moved = (set(now_open) ^ set(known["open"][lab]) for lab, now_open in basis["open"].items())
    stale = named.union(*moved)
    return stale if len(stale) <= _FEW else None


def _keep(connection: sa.Connection, reckoning: Reckoning, whose: Collection[int] | None) -> None:
    """Write down the totals of some people, or of everybody, where they differ."""
    chosen = None if whose is None else sa.select(people.c.id).where(people.c.id.in_(whose)).cte()
    shares = _shares(connection, reckoning, chosen)
    share = sa.func.coalesce(shares.c.share, NOTHING)
    query = sa.select(people.c.id, share).join_from(people, shares, isouter=True)
    query = query.where(people.c.id > 0)  # SQLite takes ON CONFLICT behind a WHERE only
    query = _among(chosen, query, people.c.id)
    insert = _INSERT[connection.dialect.name](course_totals)
    values = {"share": insert.excluded.share}
    differs = course_totals.c.share != insert.excluded.share
    insert = insert.from_select(["person_id", "share"], query)
    key = [course_totals.c.person_id]
    insert = insert.on_conflict_do_update(index_elements=key, set_=values, where=differs)
    connection.execute(insert)


def _among(chosen: sa.CTE | None, query: sa.Select[Any], person: Any) -> sa.Select[Any]:
    return query if chosen is None else query.where(person.in_(sa.select(chosen.c.id)))


def _shares(connection: sa.Connection, reckoning: Reckoning, chosen: sa.CTE | None) -> sa.Subquery:
    """Select (person_id, share) of everybody of whom something counts, or the `chosen`; rounded."""
    rule = reckoning.rule
    kinds = sa.select(counts.c.lab).where(counts.c.kind == POINTS).group_by(counts.c.lab)
    alike = set(connection.scalars(kinds.having(sa.func.count() == 1)))
    decided = set(connection.scalars(sa.select(decisions.c.lab).distinct()))
    selects = [_decided(rule), *_missing(reckoning)]
    for lab, points in reckoning.points.items():
        most = points if lab in alike else None
        selects.append(_graded(rule, lab, most, decided=lab in decided))
    selects = [_among(chosen, query, query.selected_columns.person_id) for query in selects]
    kept = _without_lowest(sa.union_all(*selects).subquery(), rule.drop_lowest)
    earned = sa.func.sum(kept.c.share * kept.c.weight) / sa.func.sum(kept.c.weight)
    rounded = sa.func.round(sa.cast(earned, sa.Numeric), _DIGITS).label("share")
    return sa.select(kept.c.person_id, rounded).group_by(kept.c.person_id).subquery()


def _weighed(
    rule: CourseRule, lab: str, person: Any, score: Any, full: sa.ColumnElement[Any]
) -> sa.Select[Any]:
    """Select the share and the weight of a score in a lab, unless it does not count."""
    weight = sa.literal(rule.weights.get(lab, 1.0), sa.Float) if rule.weights else full
    columns = (person.label("person_id"), (score / full).label("share"), weight.label("weight"))
    return sa.select(*columns).where(full > 0, weight > 0)


def _decided(rule: CourseRule) -> sa.Select[Any]:
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


def _graded(rule: CourseRule, lab: str, most: float | None, *, decided: bool) -> sa.Select[Any]:
    """Select the scores of a lab that gives `most`, or several; not those `decided` otherwise."""
    full = submissions.c.max_score if most is None else sa.literal(most, sa.Float)
    query = _weighed(rule, lab, standings.c.person_id, standings.c.score, full)
    if most is None:
        query = query.join_from(standings, submissions, submissions.c.id == standings.c.best_id)
    query = query.where(standings.c.lab == lab, standings.c.score.is_not(None))
    theirs = decisions.c.person_id == standings.c.person_id
    otherwise = sa.exists().where(theirs, decisions.c.lab == lab)
    return query.where(~otherwise) if decided else query


def _missing(reckoning: Reckoning) -> list[sa.Select[Any]]:
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
        query = _weighed(reckoning.rule, lab, people.c.id, sa.literal(0.0, sa.Float), full)
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
