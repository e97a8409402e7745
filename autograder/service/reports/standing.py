"""How a learner stands: each lab with its date, what counts of it, and what is missing; a calendar.

Pure functions. The calendar is iCalendar (RFC 5545): lines of at most 75 octets that end with CRLF.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

from autograder.service.records.rules import Rules
from autograder.service.records.submissions.submissions import Entry
from autograder.service.times import moment

OPEN, LATE, MISSING, TO_COME, IN = "open", "late", "missing", "opens later", "handed in"
_OF_ENTRY = ("score", "max_score", "late_days", "pending", "held_back", "decision")
_LINE_OCTETS = 75
_WORDS = {"opens": "opens", "due": "is due", "late_until": "closes"}


@dataclass(frozen=True)
class Place:
    """One lab of a learner: its `state`, and what counts of it, if anything was handed in."""

    lab: str
    state: str
    due: str | None
    late_until: str | None
    score: float | None = None
    max_score: float | None = None
    late_days: int = 0
    pending: int = 0
    attempts_left: int | None = None
    submission: int | None = None
    held_back: bool = False
    decision: str = ""  # of staff, about the whole lab
    dropped: bool = False  # it does not count in the course total


def standing(
    labs: Iterable[Mapping[str, Any]],
    best: Mapping[str, Entry],
    now: float,
    dropped: Collection[str] = (),
) -> list[Place]:
    """Return a learner's place in every lab.

    Args:
        labs: with the dates that hold for the learner.
        best: what counts of each lab that they have handed in.
        now: in UNIX seconds.
        dropped: the labs that do not count in their course total.
    """
    places = [_place(lab, best.get(lab["name"]), now) for lab in labs]
    return [replace(place, dropped=place.lab in dropped) for place in places]


def _place(lab: Mapping[str, Any], entry: Entry | None, now: float) -> Place:
    place = Place(lab["name"], _state(lab, now), lab["due"], lab["late_until"])
    place = replace(place, attempts_left=lab["attempts_left"])
    if entry is None:
        return place
    counts = {name: getattr(entry, name) for name in _OF_ENTRY}
    return replace(place, **counts, state=entry.decision or IN, submission=entry.id or None)


def _state(lab: Mapping[str, Any], now: float) -> str:
    """Return how it is with a lab of which nothing was handed in."""
    rules = Rules(**{field.name: lab[field.name] for field in fields(Rules)})
    if rules.is_over(now):
        return MISSING
    if rules.opens is not None and now < moment(rules.opens):
        return TO_COME
    return LATE if rules.late_days(now) else OPEN


def calendar(labs: Iterable[Mapping[str, Any]], host: str, now: float) -> str:
    """Return the dates of labs as a calendar; `host` makes the names of its events the server's."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", f"PRODID:-//{host}//course//EN"]
    for lab in labs:
        for what, words in _WORDS.items():
            if lab[what] is not None:
                lines += _event(
                    f"{lab['name']}-{what}@{host}", f"{lab['title']} {words}", lab[what], now
                )
    return "".join(f"{_fold(line)}\r\n" for line in (*lines, "END:VCALENDAR"))


def _event(uid: str, words: str, at: str, now: float) -> Sequence[str]:
    start, stamp = _utc(moment(at)), _utc(now)
    times = (f"UID:{_escape(uid)}", f"DTSTAMP:{stamp}", f"DTSTART:{start}", f"DTEND:{start}")
    return ("BEGIN:VEVENT", *times, f"SUMMARY:{_escape(words)}", "END:VEVENT")


def _utc(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"


def _escape(text: str) -> str:
    for sign in "\\;,":
        text = text.replace(sign, f"\\{sign}")
    return text


def _fold(line: str) -> str:
    """Return a line in pieces of at most 75 octets, each after the first behind a space."""
    pieces, size = [""], 0
    for sign in line:
        octets = len(sign.encode())
        if size + octets > _LINE_OCTETS:
            pieces.append(" ")
            size = 1
        pieces[-1] += sign
        size += octets
    return "\r\n".join(pieces)
