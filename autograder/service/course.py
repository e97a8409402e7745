"""What the routes work with: one object that holds the parts of a running course server."""

import asyncio
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from autograder.service.claims import Claims
from autograder.service.database import Database
from autograder.service.dates import Dates
from autograder.service.errors import Refused
from autograder.service.lab_catalog import LabCatalog
from autograder.service.limits import RateLimit, Turns
from autograder.service.live import Live
from autograder.service.queue import Queue
from autograder.service.regrades import Regrades
from autograder.service.roster import Person, Roster
from autograder.service.roster_import import take
from autograder.service.settings import Settings
from autograder.service.similarity import Similarity
from autograder.service.submissions import Submissions

if TYPE_CHECKING:
    from autograder.service.lti_tool import LtiTool
    from autograder.service.sign_in import SignIn


@dataclass(frozen=True)
class Course:
    """The parts of a course server. `url` is how others reach it, `cookie_key` is secret."""

    settings: Settings
    roster: Roster
    submissions: Submissions
    claims: Claims
    dates: Dates
    regrades: Regrades
    database: Database
    catalog: LabCatalog
    rate: RateLimit
    wrong_logins: RateLimit
    queue: Queue
    url: str
    cookie_key: str
    sign_in: "SignIn | None" = None
    lti: "LtiTool | None" = None
    turns: Turns = field(default_factory=Turns)  # to hand in
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # a notebook that came

    @cached_property
    def similarity(self) -> Similarity:
        """What compares the answers of a lab."""
        return Similarity(self.submissions, self.catalog)

    @cached_property
    def live(self) -> Live:
        """Pages that wait for a submission to change."""
        return Live(self.submissions.states)

    def person(self, login: str) -> Person:
        """Return the person of that login.

        Raises:
            Refused: 404, there is none.
        """
        found = self.roster.find(login)
        if found is None:
            raise Refused(404, f"nobody here has the login {login[:100]!r}.")
        return found

    def regrade(self, number: int, by: Person) -> bool:
        """Send a finished submission through the queue again; False if it is not finished."""
        sent = self.claims.regrade(number, by=by.login)
        self.queue.wake()
        return sent

    def regrade_lab(self, lab: str, question: str | None, by: Person) -> int:
        """Begin a batch and wake the graders; return its number.

        Raises:
            Refused: 404, there is no such question in the lab; 422, the lab cannot be read.
        """
        if question is not None and question not in (known := self.catalog.questions(lab)):
            expected = f"one of {', '.join(known)}"
            raise Refused(404, f"regrade: got question {question[:60]!r}, expected {expected}.")
        batch = self.regrades.start(lab, question, by)
        self.queue.wake()
        return batch

    def retry_parked(self) -> int:
        """Send everything that is parked through the queue again; return how many there were."""
        retried = self.claims.retry_parked()
        self.queue.wake()
        return retried

    def take_roster(self, data: bytes, by: Person, *, dry_run: bool) -> dict[str, Any]:
        """Bring people up to date with a roster; see `roster_import.take`."""
        return take(self.database, self.roster.clock, data, by, dry_run=dry_run)
