"""What the routes work with: one object that holds the parts of a running course server."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from fastapi.responses import HTMLResponse

from autograder.service.errors import Refused
from autograder.service.grading.catalog import LabCatalog
from autograder.service.grading.queue import Queue
from autograder.service.identity.lti.tool import LtiTool
from autograder.service.identity.sign_in import SignIn
from autograder.service.records.announcements import list_announcements
from autograder.service.records.grades.course_rule import CourseRule, course_rule
from autograder.service.records.people import Edit, Person
from autograder.service.records.roster.teams import teams
from autograder.service.records.store import Store
from autograder.service.records.submissions.intake import Draft, list_drafts
from autograder.service.reports.everybodys_totals import TotalsWorker
from autograder.service.reports.similarity import Similarity
from autograder.service.settings import Settings
from autograder.service.web.below import FOLDER
from autograder.service.web.limits import Limits
from autograder.service.web.live import Live
from autograder.service.web.page import page


@dataclass(frozen=True)
class Course:
    """The parts of a course; `url` is how others reach it.

    One of several has a `name`, and lies below `path`; the first, at `/`, has all the `others`.
    """

    settings: Settings
    url: str
    store: Store
    catalog: LabCatalog
    queue: Queue
    limits: Limits
    sign_in: SignIn | None = None
    lti: LtiTool | None = None
    name: str = ""
    title: str = "Course"
    others: Mapping[str, "Course"] = field(default_factory=dict)
    totals: TotalsWorker = field(default_factory=TotalsWorker)

    @property
    def path(self) -> str:
        """Where the course lies on its server: "", or such as "/courses/ml"."""
        return f"{FOLDER}/{self.name}" if self.name else ""

    def page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return the page made of a template, in which labs are called by their titles."""
        here = {"root": self.path, "course_title": self.title}
        return page(name, status, titles=self.catalog.titles, **here, **values)

    def onward(self, target: str) -> HTMLResponse:
        """Return the page that leads a browser on which is logged in now."""
        return self.page("onward", next=target, message="You are logged in.")

    @cached_property
    def similarity(self) -> Similarity:
        """What compares the answers of a lab."""
        return Similarity(self.store.submissions, self.catalog)

    @cached_property
    def live(self) -> Live:
        """Pages that wait for a submission to change."""
        return Live(self.store.submissions.states)

    def person(self, login: str) -> Person:
        """Return the person of that login.

        Raises:
            Refused: 404, there is none.
        """
        person = self.store.roster.find(login)
        if person is None:
            raise Refused(404, f"nobody here has the login {login[:100]!r}.")
        return person

    def regrade(self, number: int, by: Person) -> bool:
        """Send a finished submission through the queue again; False if it is not finished."""
        sent = self.store.claims.regrade(number, by=by.login)
        self.queue.wake()
        return sent

    def regrade_lab(self, lab: str, question: str | None, by: Person) -> int:
        """Begin a batch and wake the graders; return its number.

        Raises:
            Refused: 404, there is no such question in the lab; 422, the lab cannot be read.
        """
        if question is not None and question not in (questions := self.catalog.questions(lab)):
            expected = f"one of {', '.join(questions)}"
            raise Refused(404, f"regrade: got question {question[:60]!r}, expected {expected}.")
        batch = self.store.regrades.start(lab, question, by)
        self.queue.wake()
        return batch

    def retry_parked(self) -> int:
        """Send everything that is parked through the queue again; return how many there were."""
        retried = self.store.claims.retry_parked()
        self.queue.wake()
        return retried

    def news(self, person: Person) -> dict[str, Any]:
        """Return what a page says of the announcements that a learner has not read."""
        now = self.store.clock()
        learner = not person.is_staff
        unread = (
            list_announcements(self.store.database, now, person, unread=True) if learner else []
        )
        return {"news": unread, "now": now}

    def rule(self) -> CourseRule:
        """Return how labs make up the course total."""
        with self.store.database.read() as connection:
            return course_rule(connection)

    def edit(self, by: Person) -> Edit:
        """Return what a person changes here now, for what writes it down."""
        return Edit(self.store.database, self.store.clock, by)

    def labs_for(self, person: Person, also: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Return every lab, and some that are gone, with the dates and attempts of `person`."""
        dates = self.store.dates.calendar(person.id)
        used = self.store.submissions.attempts(person.id)
        labs, titles = [], self.catalog.titles
        mates = {t.lab: t for t in teams(self.store.database, person_id=person.id)}
        for name in sorted({*self.catalog.names, *also}):
            rules = dates.of(name, person.id)
            left = None if rules.attempts is None else max(0, rules.attempts - used.get(name, 0))
            of_lab = {"name": name, "title": titles[name], **rules.to_dict()}
            team = asdict(mates[name]) if name in mates else None
            labs.append({**of_lab, "attempts_left": left, "team": team})
        return labs

    def drafts_for(self, person: Person) -> dict[str, tuple[Draft, str | None]]:
        """Return a person's drafts by lab, each with why it cannot be handed in now, or None."""
        stored = list_drafts(self.store.database, person.id)
        if not stored:
            return {}
        dates = self.store.dates.calendar(person.id)
        used = self.store.submissions.attempts(person.id)
        refusals: dict[str, tuple[Draft, str | None]] = {}
        for draft in stored:
            rules, now = dates.of(draft.lab, person.id), self.store.clock()
            refusal = None if person.is_staff else rules.refusal(now, used.get(draft.lab, 0))
            refusals[draft.lab] = (draft, refusal)
        return refusals

    def queue_state(self) -> dict[str, Any]:
        """Return what waits, what is graded, what is paused and why, and what is parked."""
        reasons = self.queue.reasons()  # first: what a pause holds waits by the time it is seen
        waiting = self.store.claims.waiting()
        reason = "; ".join(f"{lab}: {why}" for lab, why in reasons.items())
        return {
            **asdict(waiting),
            "oldest_s": round(waiting.oldest_s, 3),
            "paused": bool(reasons),
            "reason": reason or None,
            "labs": reasons,
            "parked": [
                {"id": e.id, "login": e.learner, "lab": e.lab, "reason": e.reason, "tries": e.tries}
                for e in self.store.submissions.parked()
            ],
            "passback": self.lti.passback.outbox.describe_waiting() if self.lti else None,
        }
