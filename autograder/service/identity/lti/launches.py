"""Launches from a learning platform such as Canvas or Moodle: LTI 1.3, this server as the tool.

The platform sends a browser to `away`, which leads it back to the platform; that proves who it is
with a signed token, which the browser posts to `back`. What a browser has to bring back is in a
signed cookie. joserfc checks the signature and the times.

Source: 1EdTech, LTI Core Specification 1.3; Security Framework 1.0, sections 5.1 and 7.3.
"""

import re
import secrets
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autograder.service.errors import Refused, StartError
from autograder.service.identity import sign_in
from autograder.service.records.people import ASSISTANT, INSTRUCTOR, LEARNER

COOKIE = "course_lti"
# What a platform says of a launch before it, and what it needs again.
HINTS = ("iss", "client_id", "login_hint", "lti_message_hint", "lti_deployment_id")
NONCE_S = 3600.0  # how long a token may be valid at most

_CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
_GRADES = "https://purl.imsglobal.org/spec/lti-ags/"
_NAMES = "https://purl.imsglobal.org/spec/lti-nrps/claim/namesroleservice"
_SETTINGS = "https://purl.imsglobal.org/spec/lti-dl/claim/deep_linking_settings"
_KINDS = ("LtiResourceLinkRequest", "LtiDeepLinkingRequest")  # open a lab; choose labs to link to
_MEMBER = "http://purl.imsglobal.org/vocab/lis/v2/membership"


Text = Annotated[str, Field(min_length=1, max_length=1000)]
_ADDRESS = r"^(https://|http://(127\.0\.0\.1|localhost)[:/])"
Url = Annotated[str, Field(pattern=_ADDRESS)]


class Platform(BaseModel):
    """A learning platform as the operator describes it; `login` is the claim that is the login."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(min_length=1, max_length=40)
    issuer: Text
    client_id: Text
    deployments: list[Text] = Field(min_length=1)
    authorization_url: Url
    token_url: Url
    jwks_url: Url
    login: Text = "sub"
    contexts: list[Text] = []  # its courses that may launch; empty: any
    match_roster: bool = False  # who has that login and role here already is the same person
    audience: str = ""  # whom our proof for a token is for; empty: token_url


@dataclass(frozen=True)
class Choice:
    """What a platform wants chosen: links to labs, signed, at `return_url`, with its `data`."""

    return_url: str
    deployment: str
    several: bool
    data: str


@dataclass(frozen=True)
class Launch:
    """Who opened what from which platform; `lineitem` and `lineitems` are where grades go.

    `members` is where the platform lists its course's people, empty where it does not; `choice` is
    there when a lab is to be chosen rather than opened.
    """

    platform: Platform
    subject: str
    login: str
    name: str
    email: str
    role: str
    context: str
    lab: str
    lineitem: str
    lineitems: str
    members: str = ""
    choice: Choice | None = None


def read_platforms(path: Path) -> tuple[Platform, ...]:
    """Return the platforms of a TOML file, a table for each.

    Raises:
        StartError: it cannot be read, or says something else.
    """
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        platforms = tuple(Platform(**{**table, "name": name}) for name, table in tables.items())
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        named = f"{path}: one of {', '.join(tables)}"
        raise StartError(f"serve: --lti: {named}: {'; '.join(wrong)}.") from error
    except (OSError, ValueError, TypeError) as error:
        raise StartError(f"serve: --lti: {path}: expected tables in TOML: {error}.") from error
    if not platforms or len({(p.issuer, p.client_id) for p in platforms}) < len(platforms):
        expected = "at least one platform, each issuer and client_id once"
        raise StartError(f"serve: --lti: {path}: expected {expected}.")
    return platforms


def name_cookie(state: str) -> str:
    """Return what the cookie of one launch is called: a browser may open two labs at once."""
    return f"{COOKIE}_{state[:12]}"


class Launches:
    """The way from the platforms to here; `return_url` is where they send a browser back to."""

    def __init__(
        self, platforms: Iterable[Platform], return_url: str, key: str, lives_s: float
    ) -> None:
        self._platforms = {platform.name: platform for platform in platforms}
        self._return_url = return_url
        self._keys = sign_in.KeySets(sign_in.fetch_json)
        self._key, self._lives_s = key, lives_s

    def away(self, fields: Mapping[str, str]) -> tuple[str, str, str]:
        """Return where to send a browser that a platform has sent, and a cookie's name and value.

        Raises:
            Refused: 403, no platform here is called so.
        """
        issuer, client_id = fields.get("iss", ""), fields.get("client_id", "")
        named = [p for p in self._platforms.values() if p.issuer == issuer]
        matching = [p for p in named if client_id in ("", p.client_id)]
        if len(matching) != 1:
            problem = f"got issuer {issuer[:100]!r} and client_id {client_id[:100]!r}"
            raise Refused(403, f"launch: {problem}, expected a platform that this course knows.")
        state, nonce = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        query = {
            "scope": "openid",
            "response_type": "id_token",
            "response_mode": "form_post",
            "prompt": "none",
            "client_id": matching[0].client_id,
            "redirect_uri": self._return_url,
            "state": state,
            "nonce": nonce,
            **{name: fields[name] for name in ("login_hint", "lti_message_hint") if name in fields},
        }
        url = matching[0].authorization_url
        values = {"state": state, "nonce": nonce, "platform": matching[0].name}
        cookie = sign_in.seal(values, self._key, COOKIE, self._lives_s)
        target = f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}"
        return target, name_cookie(state), cookie

    def back(self, fields: Mapping[str, str], cookie: str) -> tuple[Launch, str]:
        """Return what a platform has proven, and its nonce, which the caller lets pass once.

        Raises:
            Refused: 403, it is not proven; 502, the platform's keys cannot be read.
        """
        if not cookie:
            problem = "this browser kept no cookie. Open the link in a window of its own"
            raise Refused(403, f"launch: {problem}, or allow cookies of this site.")
        launch = sign_in.unseal(cookie, self._key, COOKIE, fields.get("state", ""))
        platform = self._platforms.get(launch["platform"])
        if "error" in fields or platform is None:
            problem = fields.get("error_description", fields.get("error", ""))[:200]
            raise Refused(403, f"launch: the platform refuses: {problem!r}. Open the link again.")
        with sign_in.refusing_errors():
            claims = _claims(platform, self._keys, fields.get("id_token", ""), launch["nonce"])
        return _launch(platform, claims), launch["nonce"]


def _claims(platform: Platform, keys: sign_in.KeySets, token: str, nonce: str) -> dict[str, Any]:
    """Return what a platform has proven of a launch of this course.

    Raises:
        JoseError: the signature, the times or a claim of OpenID Connect are wrong.
        Refused: 403, the launch is not one of this course.
    """
    ours = (platform.issuer, platform.client_id, nonce)
    claims = sign_in.verify(keys.claims(platform.jwks_url, token, ["RS256"]), *ours)
    if "iat" not in claims:
        raise ValueError("iat")
    audience = claims["aud"]
    several = isinstance(audience, list) and len(audience) > 1
    _expect(claims, "azp", (platform.client_id,) if several else (platform.client_id, None))
    _expect(claims, f"{_CLAIM}version", ("1.3.0",))
    _expect(claims, f"{_CLAIM}message_type", _KINDS)
    _expect(claims, f"{_CLAIM}deployment_id", platform.deployments)
    return claims


def _expect(claims: Mapping[str, Any], name: str, values: Collection[Any]) -> None:
    if claims.get(name) not in values:
        problem = f"{name.removeprefix(_CLAIM)}: got {str(claims.get(name))[:60]!r}"
        raise Refused(403, f"launch: {problem}, which is not this course's. Tell your instructor.")


def _launch(platform: Platform, claims: Mapping[str, Any]) -> Launch:
    context, custom = _part(claims, "context"), _part(claims, "custom")
    if platform.contexts and context.get("id") not in platform.contexts:
        raise Refused(403, "launch: that course of the platform is not this one.")
    target = parse_qs(urlsplit(_text(claims, f"{_CLAIM}target_link_uri")).query)
    grades = claims.get(f"{_GRADES}claim/endpoint")
    grades = grades if isinstance(grades, dict) else {}
    scopes = grades.get("scope")
    scopes = scopes if isinstance(scopes, list) else []
    may_send = f"{_GRADES}scope/score" in scopes
    may_make = may_send and f"{_GRADES}scope/lineitem" in scopes
    subject, login = _text(claims, "sub"), _login(platform, claims)
    if not 0 < len(subject) <= 255 or not login:
        raise Refused(403, f"launch: the platform does not say who you are ({platform.login}).")
    return Launch(
        platform,
        subject,
        login,
        _text(claims, "name"),
        _text(claims, "email"),
        _role(claims.get(f"{_CLAIM}roles")),
        _text(context, "id")[:255],
        _text(custom, "lab") or target.get("lab", [""])[0],
        _text(grades, "lineitem") if may_send else "",
        _text(grades, "lineitems") if may_make else "",
        _members(platform, claims),
        _choice(claims),
    )


def as_launch(platform: Platform, member: Mapping[str, Any], context: str) -> Launch:
    """Return somebody whom a platform lists, as what they would launch.

    Raises:
        Refused: 422, the platform does not say who it is, or in which role that this course knows.
    """
    messages = member.get("message")
    message = next((m for m in messages if isinstance(m, dict)), {}) if messages else {}
    sourced = {"person_sourcedid": member.get("lis_person_sourcedid")}
    claims = {f"{_CLAIM}lis": sourced, **message, **member, "sub": member.get("user_id")}
    subject, login = _text(claims, "sub"), _login(platform, claims)
    if not 0 < len(subject) <= 255 or not login:
        raise Refused(422, f"the platform does not say their {platform.login}")
    who = (subject, login, _text(claims, "name"), _text(claims, "email"))
    return Launch(platform, *who, _role(member.get("roles")), context, "", "", "")


def _members(platform: Platform, claims: Mapping[str, Any]) -> str:
    """Return where the platform lists people; with what says their logins, where that is known."""
    url = _address(claims.get(_NAMES), "context_memberships_url")
    link = _text(_part(claims, "resource_link"), "id")
    if not url or not link or "." not in platform.login:
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode({'rlid': link})}"


def _choice(claims: Mapping[str, Any]) -> Choice | None:
    """Return what is to be chosen, if something is."""
    if claims[f"{_CLAIM}message_type"] != _KINDS[1]:
        return None
    settings = claims.get(_SETTINGS)
    settings = settings if isinstance(settings, dict) else {}
    return_url, kinds = _address(settings, "deep_link_return_url"), settings.get("accept_types")
    if not return_url or not isinstance(kinds, list) or "ltiResourceLink" not in kinds:
        raise Refused(403, "launch: the platform wants something chosen that is no link to a lab.")
    several, data = settings.get("accept_multiple") is True, _text(settings, "data")
    return Choice(return_url, claims[f"{_CLAIM}deployment_id"], several, data)


def _address(claims: object, name: str) -> str:
    """Return an address of the platform's, or an empty text."""
    text = _text(claims, name) if isinstance(claims, dict) else ""
    return text if re.match(_ADDRESS, text) else ""


def _part(claims: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = claims.get(_CLAIM + name)
    return part if isinstance(part, dict) else {}


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def _login(platform: Platform, claims: Mapping[str, Any]) -> str:
    """Return the claim that is the login: "sub", or one inside another, as "custom.login"."""
    group, _, name = platform.login.rpartition(".")
    return _text(_part(claims, group) if group else claims, name)


def _role(roles: object) -> str:
    """Return the role in that course of the platform; that of an institution says nothing here."""
    names = [role for role in roles if isinstance(role, str)] if isinstance(roles, list) else []
    for name, role in _ROLES.items():
        if any(text in (name, f"{_MEMBER}#{name}") for text in names) or (
            role == ASSISTANT and any(text.lower() == _ASSISTANT for text in names)
        ):
            return role
    expected = f"one of {', '.join(_ROLES)} in the platform's course"
    raise Refused(403, f"launch: your roles: got {', '.join(names)[:200]!r}, expected {expected}.")


# Platforms write it in either case.
_ASSISTANT = f"{_MEMBER}/instructor#teachingassistant".lower()

# The least that somebody with several of them needs comes first.
_ROLES = {"TeachingAssistant": ASSISTANT, "Instructor": INSTRUCTOR, "Learner": LEARNER}
