"""A roster as a file: CSV with a header, read whole, compared with who is there, and taken over.

A line that cannot be taken is a problem with its number and a reason; the others are. Whoever is
not in the file stays as they are, and so does what a line does not say.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from autograder.service.database.schema import people
from autograder.service.errors import Refused
from autograder.service.records.csv_files import Lines, table
from autograder.service.records.people import (
    ASSISTANT,
    FORMER,
    INSTRUCTOR,
    LEARNER,
    Edit,
    Person,
    add_person,
    login_key,
    login_of,
    require_printable,
)
from autograder.service.records.standings.standings import restand_people

COLUMNS = ("login", "name", "email", "section", "role")
_ROLES = {"student": LEARNER, "learner": LEARNER, ASSISTANT: ASSISTANT, INSTRUCTOR: INSTRUCTOR}
_EMAIL = re.compile(r"[^@\s,;<>]+@[^@\s,;<>]+")
_ROUNDED = re.compile(r"\d([.,]\d+)?E\+\d+")  # what Excel shows of 123456789012, and saves
_MOST_LINES = 60_000
_MOST_SHOWN = 200  # of the changes that a roster makes
_MOODLE_EMAIL = "email address"
# What platforms call our columns in what they export, in lower case: Canvas, then Moodle.
_ALIASES = {
    "login": ("sis login id", "username"),
    "email": (_MOODLE_EMAIL,),
    "section": ("groups",),
}
CANVAS_TEST_STUDENT = "Student, Test"  # whom Canvas puts into every course, with a login of digits
# The lines of Canvas's that are nobody's, by their first cells.
_NOBODY = ("points possible", CANVAS_TEST_STUDENT.lower())
_BLANK = {"", "manual posting"}  # Canvas's line of what is posted by hand names nobody

Problem = dict[str, Any]  # {line, reason}


@dataclass(frozen=True)
class Line:
    """One line of a roster: what it says of a login."""

    number: int
    login: str
    says: Mapping[str, str]


def read(data: bytes, problems: list[Problem]) -> list[Line]:
    """Return the lines that can be read; the others become `problems`.

    Raises:
        Refused: 422, it is not UTF-8, or has no header with a column `login`.
    """
    columns, rows = table(data, "roster")
    while rows and not any(columns):  # lines above it that hold separators alone
        columns = [name.strip().lower() for name in rows.pop(0)[1]]
    from_moodle = _MOODLE_EMAIL in columns  # whose list of participants has no login
    while columns and not columns[-1]:  # a spreadsheet's, where something stood once
        columns.pop()
    columns = _our_names(columns)
    has_logins = "login" in columns or from_moodle
    if not has_logins or len(set(columns)) < len(columns):
        problem = f"got the columns {', '.join(columns)[:100]!r}"
        raise Refused(422, f"roster: {problem}, expected each once of {', '.join(COLUMNS)}.")
    return _lines(rows, columns, problems)


def _our_names(columns: list[str]) -> list[str]:
    """Return the columns with those of a platform called as ours, where ours are not there."""
    theirs = {
        name: ours
        for ours, names in _ALIASES.items()
        if ours not in columns and (name := next((n for n in names if n in columns), None))
    }
    return [theirs.get(name, name) for name in columns]


def _lines(rows: Lines, columns: list[str], problems: list[Problem]) -> list[Line]:
    lines: list[Line] = []
    first: dict[str, int] = {}
    for number, row in rows:
        cells = {cell.strip().lower() for cell in row}
        if cells <= _BLANK or row[0].strip().lower() in _NOBODY:
            continue
        if len(lines) >= _MOST_LINES:
            raise Refused(422, f"roster: it has more than {_MOST_LINES} lines.")
        try:
            line = _line(number, row, columns)
            key = login_key(line.login)
            if key in first:
                raise Refused(422, f"the login {line.login!r} is in line {first[key]} already")
        except Refused as error:
            problems.append({"line": number, "reason": str(error)})
        else:
            first[key] = number
            lines.append(line)
    return lines


def _line(number: int, row: list[str], columns: list[str]) -> Line:
    """Return a line as it says, checked."""
    if any(cell.strip() for cell in row[len(columns) :]):
        raise Refused(422, f"got {len(row)} columns, expected {len(columns)}")
    # Excel leaves out the last cells of a line where they are empty.
    cells = dict.fromkeys(columns, "")
    cells |= {name: cell.strip() for name, cell in zip(columns, row, strict=False)}
    cells.setdefault("login", cells.get("email", ""))
    cells.setdefault("name", _full_name(cells))
    says, wrong = {}, []
    for name in COLUMNS:
        text = cells.get(name, "")
        if text or name == "login":
            try:
                says[name] = _CHECKED[name](text)
            except Refused as error:
                wrong.append(str(error))
    if wrong:
        raise Refused(422, "; ".join(wrong))
    return Line(number, says.pop("login"), says)


def _full_name(cells: Mapping[str, str]) -> str:
    """Return a name as Canvas ("Lovelace, Ada") and Moodle (in two columns) have it, or none."""
    last, comma, first = cells.get("student", "").partition(",")
    if not comma:
        return last or " ".join(
            filter(None, (cells.get("first name"), cells.get("last name", cells.get("surname"))))
        )
    return f"{first.strip()} {last.strip()}"


def _login(text: str) -> str:
    if _ROUNDED.fullmatch(text):
        problem = f"login: got {text!r}, a number that a spreadsheet has rounded"
        raise Refused(422, f"{problem}. Format its column as text, and enter it anew")
    return login_of(text)


def _email(text: str) -> str:
    if not _EMAIL.fullmatch(text) or len(text) > 200:
        raise Refused(422, f"email: got {text[:60]!r}, expected one such as a@b.example")
    return text


def _role(text: str) -> str:
    role = _ROLES.get(text.lower())
    if role is None:
        expected = ", ".join((LEARNER, ASSISTANT, INSTRUCTOR))
        raise Refused(422, f"role: got {text[:60]!r}, expected one of {expected}")
    return role


_CHECKED: dict[str, Callable[[str], str]] = {
    "login": _login,
    "name": partial(require_printable, what="name", most=100),
    "email": _email,
    "section": partial(require_printable, what="section", most=100),
    "role": _role,
}


def take(edit: Edit, data: bytes, *, dry_run: bool) -> dict[str, Any]:
    """Bring people up to date with a roster, in one transaction; a dry run only says what it would.

    Return how many were added, changed, unchanged and removed (nobody ever is), the problems, and
    the first of the changes.

    Raises:
        Refused: 422, it is no roster.
    """
    problems: list[Problem] = []
    lines = read(data, problems)
    done = Counter(added=0, changed=0, unchanged=0, removed=0)
    changes: list[dict[str, Any]] = []
    moved: list[int] = []
    with edit.database.read() if dry_run else edit.database.write() as connection:
        rows = connection.execute(sa.select(people))
        there = {row.login_key: dict(row._mapping) for row in rows}
        owners = _owners_of_emails(lines, there)
        for line in lines:
            member = there.get(login_key(line.login))
            if member is not None and member["role"] == FORMER:
                line = replace(line, says={"role": LEARNER, **line.says})
            if problem := _problem(line, member, edit.by) or _find_shared_email(line, owners):
                problems.append({"line": line.number, "reason": problem})
            else:
                comes_to, before, after = _change(line, member)
                done[comes_to] += 1
                if comes_to != "unchanged":
                    shown = {"login": line.login, "before": before, "after": after}
                    changes += [shown] if len(changes) < _MOST_SHOWN else []
                    if not dry_run:
                        _take(connection, edit, line, member)
                    if member is not None and not {"role", "section"}.isdisjoint(after):
                        moved.append(member["id"])
        if moved and not dry_run:
            restand_people(connection, *moved)
    problems.sort(key=lambda problem: int(problem["line"]))
    return {**done, "problems": problems, "changes": changes}


def _problem(line: Line, member: Mapping[str, Any] | None, by: Person) -> str | None:
    """Return why a line cannot be taken, or None."""
    if member is None:
        return None
    if member["login"] != line.login:
        return f"the login {line.login!r} is {member['login']!r} here: expected the same case"
    role = line.says.get("role", member["role"])
    if role != member["role"] and member["id"] == by.id:
        return "this is you: your own role stays, somebody else can change it"
    return None


def _owners_of_emails(lines: list[Line], there: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Return the login whose each email is to be, in lower case; the first of several in order."""
    emails = {login_key(line.login): line.says.get("email") for line in lines}
    owners: dict[str, str] = {}
    for key, member in there.items():
        if member["email"] and not emails.get(key):
            owners.setdefault(member["email"].casefold(), member["login"])
    for line in lines:
        if email := line.says.get("email"):
            owners.setdefault(email.casefold(), line.login)
    return owners


def _find_shared_email(line: Line, owners: Mapping[str, str]) -> str | None:
    """Return that somebody else has a line's email, by which platforms find people; or None."""
    email = line.says.get("email", "")
    owner = owners.get(email.casefold(), line.login)
    if login_key(owner) == login_key(line.login):
        return None
    return f"email: {email[:60]!r} is that of {owner!r}: expected one for each"


def _new(line: Line) -> dict[str, str]:
    return {"login": line.login, "name": line.login, "role": LEARNER, "email": "", "section": ""}


def _change(
    line: Line, member: Mapping[str, Any] | None
) -> tuple[str, dict[str, Any] | None, dict[str, Any]]:
    """Return what a line comes to, and what it changes: before, if anything was, and after."""
    there: Mapping[str, Any] = _new(line) if member is None else member
    after = {name: text for name, text in line.says.items() if there[name] != text}
    if member is None:
        return "added", None, after
    return "changed" if after else "unchanged", {name: member[name] for name in after}, after


def _take(
    connection: sa.Connection, edit: Edit, line: Line, member: Mapping[str, Any] | None
) -> None:
    """Write down what a line changes."""
    _, before, after = _change(line, member)
    if member is None:
        add_person(connection, {**_new(line), **after, "created_at": edit.now})
    else:
        connection.execute(people.update().where(people.c.id == member["id"]).values(after))
    action = "role" if "role" in after else "roster"
    edit.log(connection, action, line.login, before, after)
