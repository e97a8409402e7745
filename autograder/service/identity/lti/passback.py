"""Grades sent to learning platforms, one after the other, in a thread of its own.

LTI Assignment and Grade Services: a token by client credentials, proven with this server's key
(Authlib does it); the lab's line item, found or made where the platform gives none; the score.

Source: 1EdTech, LTI Assignment and Grade Services 2.0; RFC 7523.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from autograder.service.errors import ServerError
from autograder.service.identity.lti.launches import Platform
from autograder.service.records.outbox import Due, Outbox
from autograder.service.records.people import LEARNER, Person
from autograder.service.records.submissions import Entry, Submissions
from autograder.service.reports.gradebook import counted

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session

_SCOPE = "https://purl.imsglobal.org/spec/lti-ags/scope/"
_KIND = "application/vnd.ims.lis.v2.lineitem"
_SCORE = "application/vnd.ims.lis.v1.score+json"
_TIMEOUT_S = 20.0

log = logging.getLogger(__name__)


class _Away(ServerError):
    """The platform gives no token, or does not answer at all: nothing can be sent to it now."""


class Passback:
    """Sends what is due in the outbox; `private_key` is this server's, as PEM."""

    def __init__(
        self,
        outbox: Outbox,
        submissions: Submissions,
        platforms: Iterable[Platform],
        private_key: bytes,
        *,
        clock: Callable[[], float],
        look_s: float,
    ) -> None:
        self.outbox = outbox
        self._submissions = submissions
        self._platforms = {platform.name: platform for platform in platforms}
        self._private_key = private_key
        self._clock, self._look_s = clock, look_s
        self._sessions: dict[tuple[str, str], OAuth2Session] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to send, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after what is being sent now; the rest waits for the next server."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                busy = self.send_next()
            except Exception:  # the database is away: what is due stays so
                log.exception("passback: nothing can be sent now")
                busy = False
            if not busy:
                self._stopping.wait(self._look_s)

    def send_next(self) -> bool:
        """Send the grade that is due; False when there is none."""
        due = self.outbox.take(list(self._platforms))
        if due is None:
            return False
        try:
            after = self._send(due)
        except Exception as error:
            log.warning("passback: %s, %s: %s", due.platform, due.lab, error)
            problem = str(error) if isinstance(error, ServerError) else repr(error)
            self.outbox.failed(due, problem, everything=isinstance(error, _Away))
        else:
            self.outbox.sent(due, after)
        return True

    def _send(self, due: Due) -> dict[str, Any] | None:
        """Send what counts now; return it."""
        # Before the score is read: of two that are sent at once, the platform takes the later.
        timestamp = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")
        learner = Person(due.person_id, due.login, due.login, LEARNER)
        entry = counted([learner], self._submissions, due.lab)[due.login].get(due.lab)
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
            self._ask(due, "score", "POST", target, json=score, headers={"Content-Type": _SCORE})
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
        accept = {"Accept": f"{_KIND}container+json"}
        listed = self._ask(due, "lineitem", "GET", named, headers=accept)
        items = listed if isinstance(listed, list) else []
        item = next((i for i in items if dict(i).get("resourceId") == due.lab), None)
        if item is None:
            made = {"label": due.lab, "resourceId": due.lab, "scoreMaximum": entry.max_score}
            kinds = dict.fromkeys(("Content-Type", "Accept"), f"{_KIND}+json")
            item = self._ask(due, "lineitem", "POST", due.lineitems, json=made, headers=kinds)
        url = item.get("id") if isinstance(item, dict) else None
        if not isinstance(url, str):
            raise ServerError(f"the platform names no line item for {due.lab}.")
        self.outbox.lineitem(due, url)
        return url

    def _ask(self, due: Due, scope: str, method: str, url: str, **how: Any) -> Any:
        """Return what the platform answers; a token that it does not know is replaced once.

        Raises:
            ServerError: it refuses, with `status`; `_Away`, it does not answer.
        """
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        try:
            for last in (False, True):
                session = self._session(due.platform, scope)
                answer = session.request(method, url, **how)
                if answer.status_code != 401 or last:
                    break
                del self._sessions[due.platform, scope]
            if not answer.ok:
                problem = f"{answer.status_code}: {' '.join(answer.text.split())[:200]}"
                raise ServerError(f"{method} {url}: {problem}", status=answer.status_code)
            return answer.json() if answer.content and "Accept" in how["headers"] else None
        except (RequestException, AuthlibBaseError, ValueError) as error:
            self._sessions.pop((due.platform, scope), None)
            raise _Away(f"{method} {url}: {type(error).__name__}") from error

    def _session(self, name: str, scope: str) -> "OAuth2Session":
        """Return a session with a token for one scope, which Authlib fetches anew when it ends."""
        from authlib.common.errors import AuthlibBaseError
        from authlib.integrations.requests_client import OAuth2Session
        from authlib.oauth2.rfc7523 import PrivateKeyJWT
        from requests import RequestException

        if (name, scope) not in self._sessions:
            platform = self._platforms[name]
            session = OAuth2Session(
                platform.client_id,
                self._private_key.decode(),
                scope=_SCOPE + scope,
                token_endpoint_auth_method=PrivateKeyJWT(platform.audience or platform.token_url),
                token_endpoint=platform.token_url,
                grant_type="client_credentials",
                default_timeout=_TIMEOUT_S,
            )
            try:
                session.fetch_token()
            except (AuthlibBaseError, RequestException, ValueError) as error:
                raise _Away(f"no token from {platform.token_url}: {error}") from error
            self._sessions[name, scope] = session
        return self._sessions[name, scope]
