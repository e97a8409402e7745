"""What the routes work with: one object that holds the parts of a running course server."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from autograder.service.claims import Claims
from autograder.service.database import Database
from autograder.service.dates import Dates
from autograder.service.lab_catalog import Shelf
from autograder.service.limits import RateLimit
from autograder.service.queue import Queue
from autograder.service.regrades import Regrades
from autograder.service.roster import Person, Roster
from autograder.service.roster_import import Result, take
from autograder.service.settings import Settings
from autograder.service.similarity import Similarity
from autograder.service.submissions import Ledger

if TYPE_CHECKING:
    from autograder.service.lti_tool import LtiTool
    from autograder.service.sign_in import SignIn


@dataclass(frozen=True)
class Course:
    """The parts of a course server. `url` is how others reach it, `cookie_key` is secret."""

    settings: Settings
    roster: Roster
    ledger: Ledger
    claims: Claims
    dates: Dates
    regrades: Regrades
    database: Database
    shelf: Shelf
    rate: RateLimit
    wrong_logins: RateLimit
    queue: Queue
    url: str
    cookie_key: str
    sign_in: "SignIn | None" = None
    lti: "LtiTool | None" = None

    @cached_property
    def similarity(self) -> Similarity:
        """What compares the answers of a lab."""
        return Similarity(self.ledger, self.shelf)

    def take_roster(self, data: bytes, by: Person, *, dry_run: bool) -> Result:
        """Bring people up to date with a roster; see `roster_import.take`."""
        return take(self.database, self.roster.now, data, by, dry_run=dry_run)
