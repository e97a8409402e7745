"""Requests to learning platforms: a token by client credentials, proven with this server's key.

Source: 1EdTech, LTI Security Framework 1.0, section 4; RFC 7523. Authlib does it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from autograder.service.errors import ServerError
from autograder.service.identity.lti.launches import Platform

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session
    from requests import Response

_TIMEOUT_S = 20.0


class Unreachable(ServerError):
    """The platform gives no token, or does not answer at all: nothing can be asked of it now."""


class Sessions:
    """What one thread asks platforms; `private_key` is this server's, as PEM."""

    def __init__(self, platforms: Iterable[Platform], private_key: bytes) -> None:
        self._platforms = {platform.name: platform for platform in platforms}
        self._private_key = private_key
        self._sessions: dict[tuple[str, str], OAuth2Session] = {}

    def ask(self, platform: str, scope: str, method: str, url: str, **how: Any) -> "Response":
        """Return what a platform answers; a token that it does not know is replaced once.

        Raises:
            ServerError: it refuses, with `status`; `Unreachable`, it does not answer.
        """
        from authlib.common.errors import AuthlibBaseError
        from requests import RequestException

        try:
            for last in (False, True):
                session = self._session(platform, scope)
                answer: Response = session.request(method, url, **how)
                if answer.status_code != 401 or last:
                    break
                del self._sessions[platform, scope]
        except (RequestException, AuthlibBaseError, ValueError) as error:
            self._sessions.pop((platform, scope), None)
            raise Unreachable(f"{method} {url}: {type(error).__name__}") from error
        if not answer.ok:
            problem = f"{answer.status_code}: {' '.join(answer.text.split())[:200]}"
            raise ServerError(f"{method} {url}: {problem}", status=answer.status_code)
        return answer

    def json(self, platform: str, scope: str, method: str, url: str, **how: Any) -> Any:
        """Return the JSON that a platform answers; None where it answers nothing."""
        answer = self.ask(platform, scope, method, url, **how)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise Unreachable(f"{method} {url}: the answer is not JSON") from error

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
                scope=scope,
                token_endpoint_auth_method=PrivateKeyJWT(platform.audience or platform.token_url),
                token_endpoint=platform.token_url,
                grant_type="client_credentials",
                default_timeout=_TIMEOUT_S,
            )
            try:
                session.fetch_token()
            except (AuthlibBaseError, RequestException, ValueError) as error:
                raise Unreachable(f"no token from {platform.token_url}: {error}") from error
            self._sessions[name, scope] = session
        return self._sessions[name, scope]
