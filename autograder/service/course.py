"""What the routes work with: one object that holds the parts of a running course server."""

from dataclasses import dataclass

from autograder.service.claims import Claims
from autograder.service.lab_catalog import Shelf
from autograder.service.limits import RateLimit
from autograder.service.queue import Queue
from autograder.service.roster import Roster
from autograder.service.settings import Settings
from autograder.service.submissions import Ledger


@dataclass(frozen=True)
class Course:
    """The parts of a course server. `url` is its address as others know it."""

    settings: Settings
    roster: Roster
    ledger: Ledger
    claims: Claims
    shelf: Shelf
    rate: RateLimit
    wrong_logins: RateLimit
    queue: Queue
    url: str
