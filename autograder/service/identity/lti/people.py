"""Whoever comes from a learning platform, as the database knows them: an account, and their labs.

Somebody is known by the platform's name for them, which never changes. The first launch makes the
account, the role follows the platform from then on, and every launch of a lab says where its grades
go. Who is in the platform's course is also taken over as it lists them (`Members`), page by page.

Source: 1EdTech, LTI Names and Role Provisioning Services 2.0.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Records
from autograder.service.database.schema import (
    lti_courses,
    lti_labs,
    lti_nonces,
    lti_people,
    people,
    submissions,
)
from autograder.service.errors import Refused, ServerError
from autograder.service.identity.lti.launches import NONCE_S, Launch, Platform, as_launch
from autograder.service.identity.lti.sessions import Sessions
from autograder.service.records import audit_log
from autograder.service.records.outbox import touch
from autograder.service.records.people import (
    FORMER,
    INSTRUCTOR,
    Person,
    add_person,
    login_key,
    login_of,
)
from autograder.service.records.standings.standings import restand_people

_MOST_SHOWN = 200  # of the changes that a list of people makes


@dataclass(frozen=True)
class Course:
    """A platform's course; `members` is where it lists the people."""

    platform: str
    context: str
    members: str


@dataclass(frozen=True)
class LtiPeople(Records):
    """The people and the labs that platforms know."""

    def use(self, nonce: str) -> None:
        """Accept a launch once.

        Raises:
            Refused: 403, it has passed already.
        """
        now = self.clock()
        row = {"nonce": nonce, "expires_at": now + NONCE_S}
        try:
            with self.database.write() as connection:
                connection.execute(lti_nonces.delete().where(lti_nonces.c.expires_at < now))
                connection.execute(lti_nonces.insert().values(row))
        except sa.exc.IntegrityError as error:
            raise Refused(403, "launch: it was used already. Open the link again.") from error

    def take(self, launch: Launch, lab: str) -> Person:
        """Return who comes, with an account if this is the first time; `lab` may be empty.

        Raises:
            Refused: 403, the login belongs to somebody else; 422, it cannot be one.
        """
        try:
            return self._take(launch, lab)
        except sa.exc.IntegrityError:  # another launch has written the same rows meanwhile
            return self._take(launch, lab)

    def _take(self, launch: Launch, lab: str) -> Person:
        with self.database.write() as connection:
            if launch.members:
                _remember(connection, launch)
            return self._write_account(connection, launch, lab)

    def courses(self) -> list[Course]:
        """Return the platforms' courses from which this one was opened, and that list people."""
        return [Course(*row) for row in self.database.rows(sa.select(lti_courses))]

    def take_all(
        self,
        launches: Sequence[Launch],
        courses: Sequence[Course],
        problems: list[dict[str, Any]],
        by: Person,
        *,
        dry_run: bool,
    ) -> dict[str, Any]:
        """Bring people up to date with what platforms list; all of it, or nothing in a dry run."""
        done = Counter(added=0, changed=0, unchanged=0, removed=0)
        changes: list[dict[str, Any]] = []
        with self.database.write() as connection:
            for launch in launches:
                account = sa.select(people.c.id, people.c.role).join(lti_people)
                before = connection.execute(account.where(_is_theirs(launch))).first()
                try:
                    if before is not None and before.id == by.id != 0:
                        done["unchanged"] += 1  # nobody changes their own role
                        continue
                    with connection.begin_nested():
                        person = self._write_account(connection, launch, "")
                except Refused as error:
                    problems.append({"line": launch.login, "reason": str(error)})
                    continue
                held = None if before is None else {"role": before.role}
                after = {"role": person.role}
                kind = "added" if before is None else "unchanged" if held == after else "changed"
                done[kind] += 1
                if kind != "unchanged" and len(changes) < _MOST_SHOWN:
                    changes.append({"login": person.login, "before": held, "after": after})
            left = _find_missing(connection, launches, courses)
            names = ", ".join(dict.fromkeys(course.platform for course in courses))
            audit_log.write(connection, self.clock(), by.login, "roster", names, after=dict(done))
            if dry_run:
                connection.rollback()
        return {**done, "problems": problems, "changes": changes, "gone": left}

    def _write_account(self, connection: sa.Connection, launch: Launch, lab: str) -> Person:
        platform, me = launch.platform.name, _is_theirs(launch)
        known = connection.execute(sa.select(lti_people).where(me)).first()
        number = self._account(connection, launch) if known is None else known.person_id
        if known is None:
            row = {"platform": platform, "subject": launch.subject, "person_id": number}
            connection.execute(lti_people.insert().values(**row, context=launch.context))
        elif known.context != launch.context:
            moved = lti_people.update().where(me).values(context=launch.context)
            connection.execute(moved)
        person = self._with_role(connection, number, launch)
        fresh = lab != "" and _link(connection, launch, lab)
        if known is None or known.context != launch.context:
            touch(connection, submissions.c.person_id == number)
        if fresh:
            touch(connection, submissions.c.lab == lab)
        return person

    def _account(self, connection: sa.Connection, launch: Launch) -> int:
        """Return the number of a new account, or of one that an operator says is the same."""
        login, now = login_of(launch.login), self.clock()
        taken = people.select().where(people.c.login_key == login_key(login))
        held = connection.execute(taken).first()
        if held is None:
            name = "".join(sign for sign in launch.name if sign.isprintable()).strip()
            row = {"login": login, "name": name[:100] or login, "role": launch.role}
            number = add_person(connection, {**row, "email": launch.email[:200], "created_at": now})
            by = launch.platform.name
            audit_log.write(connection, now, by, "role", login, after=launch.role)
            return number
        same = held.login == login != INSTRUCTOR and held.role == launch.role
        linked = sa.select(lti_people.c.subject).where(
            lti_people.c.person_id == held.id, lti_people.c.platform == launch.platform.name
        )
        if not (launch.platform.match_roster and same) or connection.scalar(linked) is not None:
            problem = f"the login {login!r} is somebody else's in this course"
            raise Refused(403, f"launch: {problem}. Ask your instructor, who can tell who you are.")
        return int(held.id)

    def _with_role(self, connection: sa.Connection, number: int, launch: Launch) -> Person:
        row = connection.execute(people.select().where(people.c.id == number)).one()
        if row.role != launch.role:
            changed = people.update().where(people.c.id == number).values(role=launch.role)
            connection.execute(changed)
            restand_people(connection, number)
            roles, by = (row.role, launch.role), launch.platform.name
            audit_log.write(connection, self.clock(), by, "role", row.login, *roles)
        return Person(row.id, row.login, row.name, launch.role, row.email, row.section)


def _is_theirs(launch: Launch) -> sa.ColumnElement[bool]:
    """Whether a row of `lti_people` is that of who launches."""
    platform = lti_people.c.platform == launch.platform.name
    return platform & (lti_people.c.subject == launch.subject)


def _link(connection: sa.Connection, launch: Launch, lab: str) -> bool:
    """Write down where the grades of a lab go; return whether that is news."""
    here = (
        (lti_labs.c.platform == launch.platform.name)
        & (lti_labs.c.context == launch.context)
        & (lti_labs.c.lab == lab)
    )
    columns = (lti_labs.c.lineitem, lti_labs.c.lineitems)
    row = connection.execute(sa.select(*columns).where(here)).first()
    held = None if row is None else dict(row._mapping)
    launched = {"lineitem": launch.lineitem, "lineitems": launch.lineitems}
    places = {name: url or (held[name] if held else "") for name, url in launched.items()}
    if held == places:
        return False
    if held is None:
        key = {"platform": launch.platform.name, "context": launch.context, "lab": lab}
        connection.execute(lti_labs.insert().values(**key, **places))
    else:
        connection.execute(lti_labs.update().where(here).values(places))
    return True


def _remember(connection: sa.Connection, launch: Launch) -> None:
    """Write down where a platform lists the people of the course that was launched from."""
    key = {"platform": launch.platform.name, "context": launch.context}
    here = sa.and_(*(lti_courses.c[name] == value for name, value in key.items()))
    held = connection.scalar(sa.select(lti_courses.c.members).where(here))
    if held is None:
        connection.execute(lti_courses.insert().values(**key, members=launch.members))
    elif held != launch.members:
        connection.execute(lti_courses.update().where(here).values(members=launch.members))


def _find_missing(
    connection: sa.Connection, launches: Sequence[Launch], courses: Sequence[Course]
) -> list[str]:
    """Return the logins of whoever came from one of the courses and is listed there no more."""
    listed = {(launch.platform.name, launch.subject) for launch in launches}
    contexts = {(course.platform, course.context) for course in courses}
    query = sa.select(lti_people, people.c.login).join(people).where(people.c.role != FORMER)
    return sorted(
        row.login
        for row in connection.execute(query)
        if (row.platform, row.context) in contexts and (row.platform, row.subject) not in listed
    )


_SCOPE = "https://purl.imsglobal.org/spec/lti-nrps/scope/contextmembership.readonly"
_KIND = "application/vnd.ims.lti-nrps.v2.membershipcontainer+json"
_MOST_PAGES = 2_000

Problem = dict[str, Any]


class Members:
    """Takes over the people of the platforms' courses from which this one was opened."""

    def __init__(
        self, people: LtiPeople, platforms: Sequence[Platform], sessions: Callable[[], Sessions]
    ) -> None:
        self._people, self._sessions = people, sessions
        self._platforms = {platform.name: platform for platform in platforms}

    def courses(self) -> list[Course]:
        """Return the courses whose people can be asked for."""
        return [c for c in self._people.courses() if c.platform in self._platforms]

    def take(self, by: Person, *, dry_run: bool) -> dict[str, Any]:
        """Bring people up to date with every course, in one transaction; answer as `roster.take`.

        Whoever a platform lists no more stays as they are, and is named in `gone`.

        Raises:
            Refused: 404, no course is known; 502, a platform does not list its people.
        """
        courses = self.courses()
        if not courses:
            problem = "no platform has said yet where it lists its course's people"
            raise Refused(404, f"roster: {problem}. Open this course from the platform once.")
        problems: list[Problem] = []
        launches = [
            launch for course in courses for launch in self._list_launches(course, problems)
        ]
        return self._people.take_all(launches, courses, problems, by, dry_run=dry_run)

    def _list_launches(self, course: Course, problems: list[Problem]) -> Iterator[Launch]:
        """Yield what each member would launch; who cannot be one becomes a problem."""
        platform = self._platforms[course.platform]
        for number, member in enumerate(self._pages(course), 1):
            if member.get("status", "Active") != "Active":
                continue
            try:
                yield as_launch(platform, member, course.context)
            except Refused as error:
                name = str(member.get("name", member.get("user_id", "")))[:60]
                problems.append({"line": number, "reason": f"{name}: {error}"})

    def _pages(self, course: Course) -> Iterator[dict[str, Any]]:
        sessions, url, pages = self._sessions(), course.members, 0
        try:
            while url and (pages := pages + 1) <= _MOST_PAGES:
                headers = {"Accept": _KIND}
                answer = sessions.ask(course.platform, _SCOPE, "GET", url, headers=headers)
                body = answer.json()
                listed = body.get("members") if isinstance(body, dict) else None
                yield from (m for m in listed or () if isinstance(m, dict))
                url = answer.links.get("next", {}).get("url", "")
        except (ServerError, ValueError) as error:
            raise Refused(
                502, f"roster: {course.platform} does not list people: {error}"
            ) from error
