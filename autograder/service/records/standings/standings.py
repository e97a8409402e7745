"""How a lab stands, kept up by each grading: what the pages of a course show without reading it.

A standing is what one person adds to a lab's numbers: a set of things to count, from the
submission that counts (the best) and from the latest that is graded (whose answers people mark).
Whatever changes a grade makes the standing anew in its own transaction, and adds the difference to
`counts`. So `counts` holds how many standings have each thing.

It also says which submission counts and what of it, and `sums` what a person's come to: so the
gradebook is sorted and cut by the database.

Rows are locked in one order: submissions (as rows that others may name: `key_share`), lines,
standings, counts by their keys, sums, then whose course total is stale.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from autograder.records import Outcome
from autograder.service.database.schema import (
    answers,
    counts,
    decisions,
    marks,
    people,
    pile,
    reports,
    standings,
    submissions,
    sums,
    team_copies,
)
from autograder.service.records import stale_totals
from autograder.service.records.calendar import calendar
from autograder.service.records.marks import NOTHING
from autograder.service.records.people import LEARNER, batches
from autograder.service.records.standings import leaderboard, tries
from autograder.service.records.standings.tries import Thing

# What is counted: learners by the tenth of the points that they have, and by what the lab gives at
# most; of each question its place in the report, who tried it, who passed it and what its checks
# said; of answers for people, by section, those written, those of them that wait, those that nobody
# wrote and of these the unmarked; whose marks count, by the number of who gave them; the learners
# of whose answers any waits; and the tries and the times between (`tries`).
SCORE, POINTS, PLACE = "score", "points", "place"
TRIED, PASSED, MESSAGE = "tried", "passed", "message"
WRITTEN, WAITING, BLANK, UNMARKED, MARKED = "written", "waiting", "blank", "unmarked", "marked"
TO_MARK = "to mark"

BINS = 10
_WORDS_CHARS = 200  # so that it fits into an index, whatever the script


def restand(connection: sa.Connection, lab: str, *person_ids: int) -> None:
    """Make the standings of these people in a lab anew."""
    _sum_up(connection, _count(connection, lab, person_ids))
    stale_totals.name(connection, person_ids)


def _count(connection: sa.Connection, lab: str, person_ids: Sequence[int]) -> list[int]:
    """Write the standings of these people in a lab; return whose score is another."""
    change, moved = Counter[Thing](), list[int]()
    for some in batches(person_ids):
        change.update(_restand(connection, lab, some, moved))
    _add(connection, lab, change)
    return moved


def _sum_up(connection: sa.Connection, person_ids: Collection[int]) -> None:
    """Write what the standings of these people come to; whoever changes one waits for the other."""
    missing = sa.text("INSERT INTO sums (person_id, score) VALUES (:p, 0) ON CONFLICT DO NOTHING")
    for some in batches(person_ids):
        connection.execute(missing, [{"p": person} for person in some])
        theirs = sa.select(sums.c.person_id).where(sums.c.person_id.in_(some))
        connection.execute(theirs.order_by(sums.c.person_id).with_for_update())
        scores = defaultdict[int, list[float]](list)
        query = sa.select(standings.c.person_id, standings.c.score)
        query = query.where(standings.c.person_id.in_(some), standings.c.score.is_not(None))
        for person, score in connection.execute(query):
            scores[person].append(score)
        rows = [{"whose": person, "score": math.fsum(scores[person])} for person in some]
        connection.execute(sums.update().where(sums.c.person_id == sa.bindparam("whose")), rows)


def restand_lab(connection: sa.Connection, lab: str) -> None:
    """Make the standings of everybody in a lab anew, where its dates have changed."""
    if connection.dialect.name == "postgresql":  # whoever grades by the old dates comes first
        connection.execute(sa.text("LOCK TABLE standings IN SHARE ROW EXCLUSIVE MODE"))
    tables = (submissions, decisions)
    here = sa.union(*(sa.select(t.c.person_id).where(t.c.lab == lab) for t in tables))
    restand(connection, lab, *connection.scalars(here))


def restand_people(connection: sa.Connection, *person_ids: int) -> None:
    """Make the standings of people anew in all labs: they have another role or section."""
    labs: defaultdict[str, list[int]] = defaultdict(list)
    for some in batches(person_ids):
        mine = standings.c.person_id.in_(some)
        for lab, person in connection.execute(
            sa.select(standings.c.lab, standings.c.person_id).where(mine)
        ):
            labs[lab].append(person)
    for lab, these in sorted(labs.items()):
        _count(connection, lab, these)
    _sum_up(connection, person_ids)  # once the standings of all labs are locked
    stale_totals.name(connection, person_ids)


def drop_person(connection: sa.Connection, person_id: int) -> None:
    """Take what a person adds out of the counts; the rows go with the person."""
    mine = sa.select(standings.c.lab, standings.c.things).where(standings.c.person_id == person_id)
    for row in connection.execute(mine.order_by(standings.c.lab).with_for_update()).all():
        change = Counter[Thing]()
        change.subtract(map(_make_thing, json.loads(row.things)))
        _add(connection, row.lab, change)


def lab_points(connection: sa.Connection) -> dict[str, float]:
    """Return what each lab gives at most, by what most learners' grades say."""
    query = sa.select(counts.c.lab, counts.c.words).where(counts.c.kind == POINTS)
    rows = connection.execute(query.order_by(counts.c.number, counts.c.words))
    return {row.lab: float(row.words) for row in rows}


def _restand(
    connection: sa.Connection, lab: str, person_ids: Sequence[int], moved: list[int]
) -> Counter[Thing]:
    """Write the standings of some people; return what has become more and less.

    Those whose score is another are added to `moved`.
    """
    before = _lock(connection, lab, person_ids)
    latest, best, times = _latest_and_best(connection, lab, person_ids)
    tried = tries.count_things(connection, lab, times)
    checks = _checks(connection, [row for _, row in best.values()], before)
    desk = _desk(connection, lab, latest, before)
    decided = _read_decisions(connection, lab, person_ids)
    change, rows = Counter[Thing](), []
    for person in person_ids:
        things = [*checks.get(person, []), *desk.get(person, []), *tried.get(person, [])]
        score, row = best.get(person, (0.0, None))
        most = 1.0 if row is None else row.max_score or 1.0
        counts_now = None if row is None else score
        counts_now, most = decided.get(person, (counts_now, most))
        if row is not None:
            things.append((POINTS, "", f"{row.max_score:.12g}"))
        if counts_now is not None:
            things.append((SCORE, "", str(min(BINS - 1, int(counts_now / most * BINS)))))
        if counts_now != before[person].score:
            moved.append(person)
        change.update(things)
        change.subtract(map(_make_thing, json.loads(before[person].things)))
        values = {
            "things": json.dumps(sorted(things)),
            "checks": json.dumps(checks.get(person, [])),
            "grading_id": None if row is None else row.grading_id,
            "latest_id": latest[person].id if person in latest else None,
            "best_id": None if row is None else row.id,
            "score": counts_now,
        }
        rows.append({"whose": person, **values})
    is_standing = (standings.c.person_id == sa.bindparam("whose")) & (standings.c.lab == lab)
    connection.execute(standings.update().where(is_standing), rows)
    leaderboard.keep(connection, lab, person_ids)
    return change


def _latest_and_best(
    connection: sa.Connection, lab: str, person_ids: Sequence[int]
) -> tuple[dict[int, Any], dict[int, tuple[float, Any]], dict[int, list[float]]]:
    """Return each person's latest graded submission, and each learner's best: (score, row).

    And when each learner handed in what is graded.
    """
    columns = ("person_id", "id", "grading_id", "score", "max_score", "submitted_at")
    query = sa.select(*(submissions.c[name] for name in columns), people.c.role, people.c.section)
    query = query.join_from(submissions, people).where(
        submissions.c.person_id.in_(person_ids),
        submissions.c.lab == lab,
        submissions.c.grading_id.is_not(None),
    )
    latest: dict[int, Any] = {}
    best: dict[int, tuple[float, Any]] = {}
    times: dict[int, list[float]] = {}
    dates = calendar(connection, *person_ids)  # standings are locked: no dates are old
    for row in connection.execute(query.order_by(submissions.c.id)):
        person = row.person_id
        latest[person] = row
        if row.score is not None and row.role == LEARNER:
            times.setdefault(person, []).append(row.submitted_at)
            score = dates.apply_lateness(lab, person, row.score, row.submitted_at)
            if person not in best or score >= best[person][0]:  # the later of equals
                best[person] = (score, row)
    return latest, best, times


def _read_decisions(
    connection: sa.Connection, lab: str, person_ids: Sequence[int]
) -> dict[int, tuple[float | None, float]]:
    """Return what staff set for learners: points, None where one is excused, of how many."""
    query = sa.select(decisions.c.person_id, decisions.c.points, decisions.c.max_score)
    query = query.join_from(decisions, people).where(
        decisions.c.person_id.in_(person_ids), decisions.c.lab == lab, people.c.role == LEARNER
    )
    return {row[0]: (row[1], row[2] or 1.0) for row in connection.execute(query)}


def _lock(connection: sa.Connection, lab: str, person_ids: Sequence[int]) -> dict[int, Any]:
    """Return the standings of some people as they are, now that nobody else changes them."""
    missing = (
        "INSERT INTO standings (person_id, lab, things, checks) VALUES (:person, :lab, '[]', '[]') "
        "ON CONFLICT DO NOTHING"
    )
    connection.execute(sa.text(missing), [{"person": p, "lab": lab} for p in person_ids])
    query = sa.select(standings).where(
        standings.c.lab == lab, standings.c.person_id.in_(person_ids)
    )
    rows = connection.execute(query.order_by(standings.c.person_id).with_for_update())
    return {row.person_id: row for row in rows}


def _checks(
    connection: sa.Connection, best: list[Any], before: dict[int, Any]
) -> dict[int, list[Thing]]:
    """Return what the checks of each person's best submission say, by person."""
    things = {
        row.person_id: [_make_thing(thing) for thing in json.loads(before[row.person_id].checks)]
        for row in best
        if before[row.person_id].grading_id == row.grading_id
    }
    owners: dict[int, list[int]] = {}  # members of a team share a grading
    for row in best:
        if row.person_id not in things:
            owners.setdefault(row.grading_id, []).append(row.person_id)
    if owners:
        query = sa.select(reports.c.grading_id, reports.c.report)
        for number, text in connection.execute(query.where(reports.c.grading_id.in_(owners))):
            of_report = _of_checks(json.loads(text)["results"])
            things.update(dict.fromkeys(owners[number], of_report))
    return things


def _make_thing(values: Sequence[str]) -> Thing:
    kind, question, words = values
    return kind, question, words


def _of_checks(results: list[dict[str, Any]]) -> list[Thing]:
    places: dict[str, int] = {}
    tried, failed, messages = set[str](), set[str](), set[Thing]()
    for result in results:  # plain data: six hundred reports are 15,000 of these
        question, outcome = result["question"], result["outcome"]
        places.setdefault(question, len(places))
        if outcome != Outcome.NOT_ATTEMPTED:
            tried.add(question)
        if outcome != Outcome.CORRECT:
            failed.add(question)
        if outcome == Outcome.INCORRECT:
            text = result["output"][:_WORDS_CHARS].replace("\0", "")  # as every database takes it
            messages.add((MESSAGE, question, text.encode("utf-8", "replace").decode()))
    things = [(PLACE, question, f"{place:04}") for question, place in places.items()]
    things += [(TRIED, question, "") for question in sorted(tried)]
    things += [(PASSED, question, "") for question in sorted(tried - failed)]
    return things + sorted(messages)


def _desk(
    connection: sa.Connection, lab: str, latest: dict[int, Any], before: dict[int, Any]
) -> dict[int, list[Thing]]:
    """Put the answers of these submissions on the pile instead of what lay there; return them."""
    owners = {row.id: person for person, row in latest.items()}
    old = {row.latest_id for row in before.values()} - {None}
    connection.execute(pile.delete().where(pile.c.submission_id.in_(old)))
    things: dict[int, list[Thing]] = {}
    rows = []
    for row in connection.execute(_answers(owners)):
        written, unmarked = row.answer_sha256 != NOTHING, row.points is None
        kinds = (WRITTEN, WAITING) if written else (BLANK, UNMARKED)
        mine = things.setdefault(owners[row.id], [])
        section = latest[owners[row.id]].section
        mine += [(kind, row.question, section) for kind in kinds[: 1 + unmarked]]
        marker = None if unmarked else row.marked_by
        if marker is not None:
            mine.append((MARKED, row.question, str(marker)))
        place = {"lab": lab, "question": row.question, "submission_id": row.id, "section": section}
        about = {"alike": row.alike, "marked_by": marker}
        rows.append({**place, **about, "written": written, "waits": unmarked})
        if written and unmarked and (TO_MARK, "", "") not in mine:
            mine.append((TO_MARK, "", ""))
    if rows:
        connection.execute(pile.insert(), rows)
    return things


def _answers(submission_ids: Collection[int]) -> sa.Select[Any]:
    """Select the answers that people mark, each with its last mark."""
    older = marks.alias()
    last = sa.select(sa.func.max(older.c.id)).where(
        older.c.submission_id == submissions.c.id,
        older.c.question == answers.c.question,
        older.c.answer_sha256 == answers.c.answer_sha256,
    )
    columns = (*answers.c, marks.c.points, marks.c.marked_by)
    query = sa.select(submissions.c.id, *columns).join_from(
        submissions, answers, answers.c.grading_id == submissions.c.grading_id
    )
    query = query.join(marks, marks.c.id == last.scalar_subquery(), isouter=True)
    copies = sa.select(team_copies.c.submission_id)  # their originals are marked
    return query.where(submissions.c.id.in_(submission_ids), submissions.c.id.not_in(copies))


def _add(connection: sa.Connection, lab: str, change: Counter[Thing]) -> None:
    """Add a difference to the counts, in the order of their keys so that two wait in no circle."""
    rows: list[dict[str, Any]] = [
        {"kind": kind, "lab": lab, "question": question, "words": words, "number": number}
        for (kind, question, words), number in sorted(change.items())
        if number
    ]
    if not rows:
        return
    add = (
        "INSERT INTO counts (kind, lab, question, words, number) "
        "VALUES (:kind, :lab, :question, :words, :number) "
        "ON CONFLICT (kind, lab, question, words) DO UPDATE "
        "SET number = counts.number + excluded.number"
    )
    connection.execute(sa.text(add), rows)
    fewer = [row for row in rows if row["number"] < 0]
    if fewer:
        drop = "DELETE FROM counts WHERE kind = :kind AND lab = :lab AND question = :question"
        connection.execute(sa.text(f"{drop} AND words = :words AND number = 0"), fewer)
