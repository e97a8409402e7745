"""Grades sent to learning platforms, one after the other, in a thread of its own.

LTI Assignment and Grade Services: the lab's line item, found or made where the platform gives none;
then the score.

Source: 1EdTech, LTI Assignment and Grade Services 2.0.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode, urlsplit

from autograder.service.errors import ServerError
from autograder.service.identity.lti.launches import Platform
from autograder.service.identity.lti.sessions import Sessions, Unreachable
from autograder.service.periodic import Periodic
from autograder.service.records.outbox import Due, Outbox
from autograder.service.records.people import LEARNER, Person
from autograder.service.records.submissions.submissions import Entry, Submissions
from autograder.service.reports.gradebook import read_counted

_SCOPE = "https://purl.imsglobal.org/spec/lti-ags/scope/"
_KIND = "application/vnd.ims.lis.v2.lineitem"
_SCORE = "application/vnd.ims.lis.v1.score+json"

log = logging.getLogger(__name__)


class Passback(Periodic):
    """Sends what is due in the outbox; `private_key` is this server's, as PEM.

    After `stop` the rest waits for the next server.

    `title_of` says how a lab's line item is called.
    """

    def __init__(
        self,
        outbox: Outbox,
        submissions: Submissions,
        platforms: Sequence[Platform],
        private_key: bytes,
        title_of: Callable[[str], str],
        *,
        clock: Callable[[], float],
        look_s: float,
    ) -> None:
        super().__init__("passback", self.send_next, look_s)
        self.outbox = outbox
        self._submissions = submissions
        self._platforms = [platform.name for platform in platforms]
        self._platform = Sessions(platforms, private_key)
        self._title_of = title_of
        self._clock = clock

    def send_next(self) -> bool:
        """Send the grade that is due; False when there is none."""
        due = self.outbox.take(self._platforms)
        if due is None:
            return False
        try:
            after = self._send(due)
        except Exception as error:
            log.warning("passback: %s, %s: %s", due.platform, due.lab, error)
            problem = str(error) if isinstance(error, ServerError) else repr(error)
            self.outbox.note_failure(due, problem, everything=isinstance(error, Unreachable))
        else:
            self.outbox.note_sent(due, after)
        return True

    def _send(self, due: Due) -> dict[str, Any] | None:
        """Send what counts now; return it."""
        # Before the score is read: of two that are sent at once, the platform takes the later.
        timestamp = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        learner = Person(due.person_id, due.login, due.login, LEARNER)
        entry = read_counted([learner], self._submissions, due.lab)[due.login].get(due.lab)
        if entry is None or entry.score is None:
            return None
        lineitem = due.lineitem or self._lineitem(due, entry)
        url = urlsplit(lineitem)
        score = {
            "userId": due.subject,
            "scoreGiven": entry.score,
            "scoreMaximum": entry.max_score,
            "activityProgress": "Completed",
            "gradingProgress": "PendingManual" if entry.pending else "FullyGraded",
            "timestamp": timestamp,
        }
        target = url._replace(path=f"{url.path}/scores").geturl()
        try:
            how = {"json": score, "headers": {"Content-Type": _SCORE}}
            self._platform.ask(due.platform, f"{_SCOPE}score", "POST", target, **how)
        except ServerError as error:
            if error.status == 404 and due.lineitems:  # somebody has deleted it there
                self.outbox.lineitem(due, "")
            raise
        return {"score": entry.score, "max_score": entry.max_score}

    def _lineitem(self, due: Due, entry: Entry) -> str:
        """Return the platform's line item of a lab, which is made where there is none."""
        if not due.lineitems:
            problem = "the platform gave no line item with the link"
            raise ServerError(f"{problem}: add it there as an assignment that is graded.")
        sign = "&" if urlsplit(due.lineitems).query else "?"
        named = f"{due.lineitems}{sign}{urlencode({'resource_id': due.lab})}"
        ask = partial(self._platform.json, due.platform, f"{_SCOPE}lineitem")
        listed = ask("GET", named, headers={"Accept": f"{_KIND}container+json"})
        items = listed if isinstance(listed, list) else []
        item = next((i for i in items if dict(i).get("resourceId") == due.lab), None)
        if item is None:
            label = self._title_of(due.lab)
            new_item = {"label": label, "resourceId": due.lab, "scoreMaximum": entry.max_score}
            kinds = dict.fromkeys(("Content-Type", "Accept"), f"{_KIND}+json")
            item = ask("POST", due.lineitems, json=new_item, headers=kinds)
        url = item.get("id") if isinstance(item, dict) else None
        if not isinstance(url, str):
            raise ServerError(f"the platform names no line item for {due.lab}.")
        self.outbox.lineitem(due, url)
        return url
