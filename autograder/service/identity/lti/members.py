"""Who is in a platform's course, as the platform lists them, page by page.

Source: 1EdTech, LTI Names and Role Provisioning Services 2.0.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autograder.service.errors import Refused, ServerError
from autograder.service.identity.lti.launches import Launch, Platform, as_launch
from autograder.service.identity.lti.people import Course, LtiPeople
from autograder.service.identity.lti.sessions import Sessions
from autograder.service.records.people import Person

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
        launches = [launch for course in courses for launch in self._listed(course, problems)]
        return self._people.take_all(launches, courses, problems, by, dry_run=dry_run)

    def _listed(self, course: Course, problems: list[Problem]) -> Iterator[Launch]:
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
