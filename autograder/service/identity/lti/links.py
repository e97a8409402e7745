"""Links to labs, as somebody who teaches chooses them for a learning platform.

The platform opens this server to choose; the choice goes back as a token that this server signs,
with a link for each lab. In between it waits in the page's form, sealed for whoever was asked.

Source: 1EdTech, LTI Deep Linking 2.0.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from autograder.service.errors import Refused
from autograder.service.identity.lti.launches import Choice, Launch, Platform
from autograder.service.identity.sign_in import seal, unseal
from autograder.service.records.people import Person

if TYPE_CHECKING:
    from joserfc.jwk import RSAKey

_PURPOSE = "course_lti_links"
_CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
_LINKS = "https://purl.imsglobal.org/spec/lti-dl/claim/"
_LIVES_S = 300


class Links:
    """Signs the links; `url` is where platforms launch, `seal` the key of what waits in forms."""

    def __init__(
        self,
        platforms: Iterable[Platform],
        url: str,
        key: "RSAKey",
        seal: str,
        lives_s: float,
        title_of: Callable[[str], str],
    ) -> None:
        self._platforms = {platform.name: platform for platform in platforms}
        self._url, self._key = url, key
        self._seal, self._lives_s = seal, lives_s
        self._title_of = title_of

    def sign_choice(self, launch: Launch, person: Person) -> str:
        """Return a text for the form in which `person` chooses; `answer` reads it."""
        values = {"platform": launch.platform.name, "state": person.login}
        choice = json.dumps(asdict(launch.choice)) if launch.choice else ""
        return seal({**values, "choice": choice}, self._seal, _PURPOSE, self._lives_s)

    def answer(self, asked: str, person: Person, labs: Sequence[str]) -> tuple[str, str]:
        """Return where a browser posts the links to these labs, and the signed token with them.

        Raises:
            Refused: 403, somebody else was asked, or too long ago; 422, no lab or too many.
        """
        from joserfc import jwt

        values = unseal(asked, self._seal, _PURPOSE, person.login)
        platform = self._platforms.get(values["platform"])
        if platform is None:
            raise Refused(403, "links: this course knows that platform no more.")
        choice = Choice(**json.loads(values["choice"]))
        if not labs or (len(labs) > 1 and not choice.several):
            expected = "at least one" if choice.several else "one"
            raise Refused(422, f"links: got {len(labs)} labs, expected {expected}. Go back.")
        claims = self._claims(platform, choice, labs)
        header = {"alg": "RS256", "kid": self._key.kid}
        return choice.return_url, jwt.encode(header, claims, self._key, algorithms=["RS256"])

    def _claims(self, platform: Platform, choice: Choice, labs: Sequence[str]) -> dict[str, Any]:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": platform.client_id,
            "aud": [platform.issuer],
            "iat": now,
            "exp": now + _LIVES_S,
            "nonce": secrets.token_urlsafe(32),
            f"{_CLAIM}version": "1.3.0",
            f"{_CLAIM}message_type": "LtiDeepLinkingResponse",
            f"{_CLAIM}deployment_id": choice.deployment,
            f"{_LINKS}content_items": [self._item(lab) for lab in labs],
        }
        return claims | ({f"{_LINKS}data": choice.data} if choice.data else {})

    def _item(self, lab: str) -> dict[str, Any]:
        return {
            "type": "ltiResourceLink",
            "title": self._title_of(lab),
            "url": f"{self._url}?lab={quote(lab)}",
            "custom": {"lab": lab},
            "window": {"targetName": "_blank"},
        }
