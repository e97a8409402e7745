"""Signing in through somebody else: an OpenID Connect provider, or the JupyterHub of the course.

Both are OAuth 2.0 with an authorization code, PKCE and a `state` that the browser keeps in a cookie
(Authlib does the protocol). Whoever comes back must be on the roster: nobody is enrolled by it.

A sign-in that leads to another site has nobody to ask yet, so what it has to remember goes with the
browser, as a JSON Web Token under a key of this course (HS256; joserfc does it).

Source: OpenID Connect Core 1.0; RFC 7519; RFC 6749, RFC 7636; JupyterHub, "Services", OAuth.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from autograder.service.errors import Refused

if TYPE_CHECKING:
    from authlib.integrations.requests_client import OAuth2Session
    from joserfc.jwk import KeySet


COOKIE = "course_signin"

_TIMEOUT_S = 20.0
_SEAL = "HS256"
_ALGORITHMS = ["RS256", "PS256", "ES256", "EdDSA"]
_LEEWAY_S = 60
_SECRET_METHODS = ["client_secret_basic", "client_secret_post"]
_TELL_STAFF = "Tell whoever runs the course server."


def seal(values: Mapping[str, str], key: str, purpose: str, lives_s: float) -> str:
    """Return the values as a text for a cookie, which `unseal` reads for `lives_s`."""
    from joserfc import jwt
    from joserfc.jwk import OctKey

    claims = {"values": dict(values), "aud": purpose, "exp": int(time.time() + lives_s)}
    return jwt.encode({"alg": _SEAL}, claims, OctKey.import_key(key))


def unseal(text: str, key: str, purpose: str, state: str) -> dict[str, str]:
    """Return what `seal` was given, if `state`, which came back, is the one in it.

    Raises:
        Refused: 403, it was sealed elsewhere, for something else, or too long ago.
    """
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import OctKey

    try:
        claims = jwt.decode(text, OctKey.import_key(key), algorithms=[_SEAL]).claims
        registry = jwt.JWTClaimsRegistry(
            aud={"essential": True, "value": purpose}, exp={"essential": True}
        )
        registry.validate(claims)
        values = dict(claims["values"])
        if not secrets.compare_digest(values["state"].encode(), state.encode()):
            raise ValueError("state")
        return values
    except (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = "this browser did not ask for that, or too long ago"
        raise Refused(403, f"log in: {problem}. Start again.") from error


@dataclass(frozen=True)
class Asked:
    """What a browser that was sent away has to bring back; it keeps it in a sealed cookie."""

    state: str
    nonce: str
    verifier: str
    next: str


@dataclass(frozen=True)
class Client:
    """What the provider knows of us."""

    id: str
    secret: str
    return_url: str


class SignIn:
    """The way there and back again."""

    def __init__(self, provider: "OpenId | Hub", client: Client, scope: str) -> None:
        self.title = provider.title
        self._provider = provider
        self._client = client
        self._scope = scope
        self._session().close()  # what Authlib needs is missed now, not by the first who signs in

    def away(self, next: str) -> tuple[str, Asked]:
        """Return the address to send a browser to, and what it has to keep meanwhile."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        attempt = Asked(state, nonce, verifier, next)
        with refusing_errors(), self._session() as session:
            url, _ = session.create_authorization_url(
                self._provider.endpoints()[0],
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
        return url, attempt

    def back(self, code: str, asked: Asked) -> str:
        """Return the login of whoever comes back with a code.

        Raises:
            Refused: 403, the provider does not stand by it; 502, it does not answer.
        """
        with refusing_errors(), self._session() as session:
            url = self._provider.endpoints()[1]
            session.token_endpoint_auth_method = self._provider.secret_method()
            token = session.fetch_token(url, code=code, code_verifier=asked.verifier)
            return self._provider.read_login(dict(token), asked.nonce)

    def _session(self) -> "OAuth2Session":
        from authlib.integrations.requests_client import OAuth2Session

        return OAuth2Session(
            self._client.id,
            self._client.secret,
            scope=self._scope,
            redirect_uri=self._client.return_url,
            code_challenge_method="S256",
            default_timeout=_TIMEOUT_S,
        )


@contextmanager
def refusing_errors() -> Iterator[None]:
    """Make of what goes wrong between the provider and us a refusal that tells no secret."""
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError
    from requests import RequestException

    try:
        yield
    except (RequestException, KeyError) as error:
        raise Refused(502, "log in: the sign-in service does not answer as it should.") from error
    except (AuthlibBaseError, JoseError, ValueError) as error:
        problem = f"the sign-in service does not stand by this: {type(error).__name__}"
        raise Refused(403, f"log in: {problem}. Start again.") from error


class OpenId:
    """An OpenID Connect provider, found by its issuer; `claim` of whoever signs in is the login.

    The claim is that of the ID token or, where it is not in there, of the UserInfo endpoint: in the
    code flow a provider may give the claims of a scope there alone (OpenID Connect Core, 5.4).
    """

    title = "your institution"

    def __init__(self, issuer: str, client_id: str, claim: str) -> None:
        self._issuer = issuer.rstrip("/")
        self._client_id = client_id
        self._claim = claim
        self._keys = KeySets(fetch_json)

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        return fetch_json(f"{self._issuer}/.well-known/openid-configuration")

    def endpoints(self) -> tuple[str, str]:
        """Return where a browser is sent, and where a code becomes a token."""
        return self._metadata["authorization_endpoint"], self._metadata["token_endpoint"]

    def secret_method(self) -> str:
        """Return how we say our secret, in RFC 7591's words: the first that the provider takes.

        Raises:
            Refused: 502, it takes none that we know.
        """
        offered = self._metadata.get("token_endpoint_auth_methods_supported")
        if not isinstance(offered, list):
            return _SECRET_METHODS[0]  # what OpenID Connect Discovery says of a list left out
        for method in _SECRET_METHODS:
            if method in offered:
                return method
        known = " or ".join(_SECRET_METHODS)
        problem = f"it takes the course's secret in another way: got {offered!r}, expected {known}"
        raise Refused(502, f"log in: the sign-in service: {problem}. {_TELL_STAFF}")

    def read_login(self, token: dict[str, Any], nonce: str) -> str:
        """Return the login of whoever a proven ID token is about.

        Raises:
            Refused: 403, nothing that the provider says of them has the claim.
        """
        signed = self._keys.claims(self._metadata["jwks_uri"], token["id_token"], _ALGORITHMS)
        claims = verify(signed, self._metadata["issuer"], self._client_id, nonce)
        if self._metadata["issuer"].rstrip("/") != self._issuer:
            raise ValueError("issuer")
        if claims.get("azp", self._client_id) != self._client_id:
            raise ValueError("azp")
        if claims.get(self._claim) is None:
            claims = self._user_info(token, claims["sub"])
        if self._claim == "email" and claims.get("email_verified") is not True:
            raise ValueError("email_verified")
        login = claims.get(self._claim)
        if login is None:  # not "None": somebody here may be called so
            problem = f"the sign-in service does not say your login: it gave no {self._claim!r}"
            step = f"{_TELL_STAFF} `--openid-claim` names a claim that it gives."
            raise Refused(403, f"log in: {problem}. {step}")
        if not isinstance(login, str):
            raise ValueError(self._claim)
        return login

    def _user_info(self, token: dict[str, Any], subject: str) -> dict[str, Any]:
        """Return what the UserInfo endpoint says of the subject of the ID token; {} without one.

        Source: OpenID Connect Core 1.0, 5.3.2: of another subject nothing may be used.
        """
        if "userinfo_endpoint" not in self._metadata:
            return {}
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        claims = fetch_json(self._metadata["userinfo_endpoint"], headers)
        if claims.get("sub") != subject:
            raise ValueError("sub")
        return claims


class Hub:
    """The JupyterHub whose service this server is."""

    title = "JupyterHub"

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def endpoints(self) -> tuple[str, str]:
        """Return where a browser is sent, and where a code becomes a token."""
        api = f"{self._url}/hub/api/oauth2"
        return f"{api}/authorize", f"{api}/token"

    def secret_method(self) -> str:
        """Return how we say our secret: the hub reads no header."""
        return "client_secret_post"

    def read_login(self, token: dict[str, Any], _nonce: str) -> str:
        """Return the name of the hub's user."""
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        return str(fetch_json(f"{self._url}/hub/api/user", headers)["name"])


def fetch_json(url: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the JSON object that is at an address.

    Raises:
        RequestException, KeyError: it is not to be had; `refusing_errors` makes a refusal of both.
    """
    import requests

    answer = requests.get(url, headers=headers, timeout=_TIMEOUT_S)
    answer.raise_for_status()
    body = answer.json()
    if not isinstance(body, dict):
        raise KeyError(url)
    return body


def verify(claims: dict[str, Any], issuer: str, client_id: str, nonce: str) -> dict[str, Any]:
    """Return what a signed ID token says, once it is the issuer's, for us, now and of this nonce.

    Raises:
        JoseError: its times or a claim is wrong.
    """
    from joserfc import jwt

    registry = jwt.JWTClaimsRegistry(
        leeway=_LEEWAY_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": client_id},
        exp={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    registry.validate(claims)
    return claims


_KEPT_S = 600.0  # a key that was taken back is trusted no longer than this


class KeySets:
    """JSON Web Key Sets by address; `fetch` gives the JSON object that is at one."""

    def __init__(
        self, fetch: Callable[[str], dict[str, Any]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept: dict[str, tuple[float, KeySet]] = {}

    def claims(self, url: str, token: str, algorithms: list[str]) -> dict[str, Any]:
        """Return what a token says that a key of this address has signed.

        A key that is not among those kept is looked for once at the address: it may be new.

        Raises:
            JoseError: no key there has signed it.
        """
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError

        until, keys = self._kept.get(url, (0.0, None))
        if keys is not None and self._clock() < until:
            try:
                return dict(jwt.decode(token, keys, algorithms=algorithms).claims)
            except InvalidKeyIdError:
                pass
        return dict(jwt.decode(token, self._fetch_keys(url), algorithms=algorithms).claims)

    def _fetch_keys(self, url: str) -> "KeySet":
        from joserfc.jwk import KeySet

        keys = KeySet.import_key_set({"keys": self._fetch(url)["keys"]})
        self._kept[url] = self._clock() + _KEPT_S, keys
        return keys
