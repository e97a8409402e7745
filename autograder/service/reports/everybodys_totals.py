"""Everybody's course total as the database works it out, to sort by; `totals` is one learner's.

Each select gives (person_id, share, weight) of what counts: scores of a lab, what staff decided,
labs that were missed. Where a lab gives everybody as many points, an index has all that is read.
"""

from typing import Any

import sqlalchemy as sa

from autograder.service.database.schema import (
    counts,
    decisions,
    people,
    standings,
    submissions,
)
from autograder.service.records.course_rule import CourseRule
from autograder.service.records.people import LEARNER
from autograder.service.records.standings import POINTS
from autograder.service.records.submissions import Submissions
from autograder.service.reports.totals import Reckoning

_DIGITS = 9  # of a share: what a sum's order changes lies behind them


def shares(submissions_: Submissions) -> sa.Subquery:
    """Select (person_id, share) of all learners of whom something counts, rounded."""
    reckoning = Reckoning.of(submissions_)
    rule = reckoning.rule
    maxima = sa.select(counts.c.lab, sa.func.count()).where(counts.c.kind == POINTS)
    rows = submissions_.database.rows(maxima.group_by(counts.c.lab))
    most = {lab: reckoning.points[lab] if number == 1 else None for lab, number in rows}
    decided = {row.lab for row in submissions_.database.rows(sa.select(decisions.c.lab).distinct())}
    selects = [_graded(rule, lab, most[lab], decided=lab in decided) for lab in most]
    selects.append(_decided(rule))
    counted = sa.union_all(*selects, *_missing(reckoning)).subquery()
    kept = _without_lowest(counted, rule.drop_lowest)
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
    dates, now = reckoning.dates, reckoning.now
    over = {lab for lab, rules in dates.rules.items() if rules.is_over(now)}
    more_time = {person for _, person in dates.later} | set(dates.factors)
    selects = []
    for lab in sorted(over & set(reckoning.points)):
        may_still = [p for p in sorted(more_time) if not dates.of(lab, p).is_over(now)]
        late: Any = sa.bindparam(None, may_still, expanding=True, literal_execute=True)
        nothing = [
            ~sa.exists().where(table.c.person_id == people.c.id, table.c.lab == lab)
            for table in (submissions, decisions)
        ]
        full = sa.literal(reckoning.points[lab], sa.Float)
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
