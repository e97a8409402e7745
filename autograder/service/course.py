"""What the routes work with: one object that holds the parts of a running course server."""

from collections.abc import Callable
from dataclasses import dataclass

from autograder.service.ledger import Ledger
from autograder.service.limits import RateLimit
from autograder.service.roster import Roster
from autograder.service.settings import Settings
from autograder.service.shelf import Shelf


@dataclass(frozen=True)
class Course:
    """The parts of a course server. `wake` tells the queue that there is work."""

    settings: Settings
    roster: Roster
    ledger: Ledger
    shelf: Shelf
    rate: RateLimit
    wake: Callable[[], None]
