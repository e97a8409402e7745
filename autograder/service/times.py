"""Times as they come in and go out: ISO 8601 with a zone. Inside they are UNIX seconds."""

from datetime import UTC, datetime
from functools import lru_cache

from autograder.service.errors import Refused

_MOST_CHARS = 40


def iso(seconds: float | None) -> str | None:
    """Return a time in UTC as ISO 8601, to the second."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)  # lists ask for the same dates in every line
def moment(text: str) -> float:
    """Return the UNIX time of a date that `date` has let through."""
    return datetime.fromisoformat(text).timestamp()


def later(text: str, seconds: float, like: str) -> str:
    """Return a date so many seconds later, in the zone of `like`, as far as calendars go."""
    # every zone has these days
    first, last = (datetime(*day, tzinfo=UTC).timestamp() for day in ((1, 1, 2), (9999, 12, 30)))
    until = max(first, min(moment(text) + seconds, last))
    return datetime.fromtimestamp(until, datetime.fromisoformat(like).tzinfo).isoformat()


def format_local(text: str) -> str:
    """Return a date as people read it, in the zone in which it was set."""
    when = datetime.fromisoformat(text)
    zone = f"{when:%z}"
    shown = "UTC" if zone in ("", "+0000") else f"UTC{zone[:3]}:{zone[3:5]}"
    return f"{when:%a %d %b %Y, %H:%M} {shown}"


def date(text: object, name: str) -> str | None:
    """Return a date as it was given, ISO 8601 with a zone; None stays None.

    Raises:
        Refused: 422, it is something else, or UTC has no such date.
    """
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
        if when is not None and when.tzinfo is not None and len(str(text)) <= _MOST_CHARS:
            when.astimezone(UTC).timestamp()
            return str(text)
    except (ValueError, OverflowError):
        pass
    expected = "a time with its zone, such as 2031-02-28T12:00:00+01:00"
    raise Refused(422, f"{name}: got {str(text)[:60]!r}, expected {expected}.")
