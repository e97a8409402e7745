"""Launches from a learning platform and grades sent back to it: a platform that speaks LTI 1.3."""

import base64
import functools
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import pytest
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError
from joserfc.jwk import KeySet, RSAKey

from autograder.cli import main
from autograder.records import CheckResult, Outcome, Report
from autograder.service.errors import StartError
from autograder.service.identity.lti.launches import Launch, read_platforms
from autograder.service.identity.lti.passback import Passback
from autograder.service.identity.lti.people import LtiPeople
from autograder.service.identity.lti.tool import new_key
from autograder.service.identity.sign_in import KeySets
from autograder.service.records.grades.decisions import decide
from autograder.service.records.outbox import Outbox
from autograder.service.records.people import Edit
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store
from tests.autograder.service.keys import foreign_key, signing_key

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
GRADES = "https://purl.imsglobal.org/spec/lti-ags/"
SCOPES = [f"{GRADES}scope/{name}" for name in ("score", "lineitem")]
NAMES = "https://purl.imsglobal.org/spec/lti-nrps/"
READS = f"{NAMES}scope/contextmembership.readonly"
LINKS = "https://purl.imsglobal.org/spec/lti-dl/claim/"
MEMBER = "http://purl.imsglobal.org/vocab/lis/v2/membership"
RIGHT = '{"cells": [{"cell_type": "code", "source": "x = 1"}]}'
ANSWERED = '{"cells": [{"cell_type": "code", "source": "manual x = 1"}]}'


class Platform(ThreadingHTTPServer):
    """The platform's half, as the specifications say it; `refuse` holds answers to come."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.keys_asked = 0
        self.tool = ""  # the address of the course
        self.key = signing_key()
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "one"}
        self.tokens: dict[str, str] = {}  # token -> scope
        self.seen: set[str] = set()  # proofs that were used
        self.items: dict[str, dict[str, Any]] = {}
        self.scores: list[dict[str, Any]] = []
        self.refuse: list[int] = []
        self.asked: list[str] = []  # paths that are not there
        self.members: list[dict[str, Any]] = []  # of the course "ctx", two a page
        self.arrived = threading.Condition()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Return a launch of lab 01 by the learner ada, but for the changes; None leaves out."""
        at, now = f"{self.url}/items", int(time.time())
        found = {
            "iss": self.url,
            "aud": ["course"],
            "sub": "person-1",
            "exp": now + 300,
            "iat": now,
            "name": "Ada L.",
            "email": "ada@example.org",
            f"{CLAIM}version": "1.3.0",
            f"{CLAIM}message_type": "LtiResourceLinkRequest",
            f"{CLAIM}deployment_id": "7",
            f"{CLAIM}target_link_uri": f"{self.tool}/lti/launch",
            f"{CLAIM}roles": [f"{MEMBER}#Learner"],
            f"{CLAIM}context": {"id": "ctx"},
            f"{CLAIM}custom": {"lab": "first", "login": "ada"},
            f"{GRADES}claim/endpoint": {
                "scope": SCOPES,
                "lineitems": at,
                "lineitem": f"{at}/1?type_id=3",
            },
        }
        plain = {*found, "nonce", "azp"}
        whole = {name for name in changes if name in plain or "://" in name}
        names = {name: name if name in whole else CLAIM + name for name in changes}
        found |= {names[name]: value for name, value in changes.items()}
        return {name: value for name, value in found.items() if value is not None}

    def signed(self, query: dict[str, str], **changes: Any) -> str:
        claims = self.claims(**{"nonce": query["nonce"], **changes})
        return jwt.encode(self.header, claims, self.key, algorithms=[self.header["alg"]])

    def wait(self, count: int) -> list[dict[str, Any]]:
        """Return the scores once there are so many."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.scores) >= count, 60)
            return list(self.scores)


class Handler(BaseHTTPRequestHandler):
    server: Platform

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/keys":
            self.server.keys_asked += 1
            self.say(200, {"keys": [signing_key().as_dict(private=False)]})
        elif url.path == "/items" and self.may("lineitem"):
            wanted = parse_qs(url.query)["resource_id"]
            items = [i for i in self.server.items.values() if [i.get("resourceId")] == wanted]
            self.say(200, items)
        elif url.path == "/members" and self.may(READS):
            start = int(parse_qs(url.query).get("from", ["0"])[0])
            more = f'<{self.server.url}/members?from={start + 2}>; rel="next"'
            headers = {"Link": more} if start + 2 < len(self.server.members) else {}
            self.say(200, {"members": self.server.members[start : start + 2]}, **headers)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        path = urlsplit(self.path).path
        if path == "/token":
            self.token({name: values[0] for name, values in parse_qs(body).items()})
        elif path == "/items" and self.may("lineitem"):
            assert self.headers["Content-Type"] == "application/vnd.ims.lis.v2.lineitem+json"
            number = f"{self.server.url}/items/{len(self.server.items) + 2}"
            self.server.items[number] = {"id": number, **json.loads(body)}
            self.say(201, self.server.items[number])
        elif re.fullmatch(r"/items/\d+/scores", path) and self.may("score"):
            assert self.headers["Content-Type"] == "application/vnd.ims.lis.v1.score+json"
            with self.server.arrived:
                status = self.server.refuse.pop(0) if self.server.refuse else 200
                if status == 200:
                    self.server.scores.append({"path": self.path, **json.loads(body)})
                    self.server.arrived.notify_all()
                if status == 401:
                    self.server.tokens.clear()
            self.say(status)
        elif path != "/items":
            self.server.asked.append(path)
            self.say(404)

    def token(self, form: dict[str, str]) -> None:
        """Check a proof by the tool's own keys, as RFC 7523 says."""
        with urlopen(f"{self.server.tool}/lti/keys", timeout=30) as answer:
            keys = KeySet.import_key_set(json.load(answer))
        claims = jwt.decode(form["client_assertion"], keys, algorithms=["RS256"]).claims
        assert claims["iss"] == claims["sub"] == "course"
        assert claims["aud"] == f"{self.server.url}/token" and claims["exp"] > time.time()
        assert claims["jti"] not in self.server.seen
        self.server.seen.add(claims["jti"])
        assert form["grant_type"] == "client_credentials" and form["scope"] in (*SCOPES, READS)
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert form["client_assertion_type"] == kind
        token = secrets.token_hex(8)
        self.server.tokens[token] = form["scope"]
        self.say(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def may(self, scope: str) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        right = self.server.tokens.get(token) in (scope, f"{GRADES}scope/{scope}")
        if not right:
            self.say(401)
        return right

    def say(self, status: int, found: Any = None, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if found is not None:
            self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def platform() -> Iterator[Platform]:
    with Platform() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def describe(tmp_path: Path, platform: Platform) -> Callable[..., Path]:
    """Return how the platform is described in a file, with some lines more."""

    def write(more: str = "", url: str = platform.url) -> Path:
        path = tmp_path / "lti.toml"
        path.write_text(
            f"""[moodle]
            issuer = "{platform.url}"
            client_id = "course"
            deployments = ["7"]
            authorization_url = "{url}/auth?a=b"
            token_url = "{url}/token"
            jwks_url = "{url}/keys"
            login = "custom.login"
            {more}"""
        )
        return path

    return write


@functools.cache
def tool_key() -> bytes:
    return new_key()


QUICK = {"passback_look_s": 0.05, "passback_again_s": 0.05}


@pytest.fixture
def course(start: Any, describe: Any, platform: Platform, settings: Any) -> Any:
    settings.data.mkdir(mode=0o700)
    (settings.data / "lti.key").write_bytes(tool_key())  # other servers make their own
    with start(lti=describe(), **QUICK) as running:
        platform.tool = running.staff.server
        yield running


@pytest.fixture
def browser(course: Any, browse: Any) -> Any:
    return browse(course.staff.server)


def begin(browser: Any, platform: Platform, **headers: str) -> dict[str, str]:
    """Let the platform send a browser, and return what the course asks the platform then."""
    said = {"iss": platform.url, "client_id": "course", "login_hint": "h", "lti_message_hint": "m"}
    answer = browser.ask("GET", f"/lti/login?{urlencode(said)}", **headers)
    assert answer.status == 303, answer.text
    for attribute in ("secure", "httponly", "samesite=none", "path=/lti", "max-age=600"):
        assert attribute in answer.getheader("Set-Cookie").lower()
    url = urlsplit(answer.getheader("Location"))
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert url.path == "/auth" and query.pop("a") == "b"
    expected = {"scope": "openid", "response_type": "id_token", "response_mode": "form_post"}
    expected |= {"prompt": "none", "client_id": "course", "login_hint": "h"}
    assert expected | {"lti_message_hint": "m"} == {
        name: value
        for name, value in query.items()
        if name not in ("state", "nonce", "redirect_uri")
    }
    return query


def launch(browser: Any, platform: Platform, **changes: Any) -> Any:
    """Launch, and return what the course answers in the end."""
    query = begin(browser, platform)
    form = {"state": query["state"], "id_token": platform.signed(query, **changes)}
    return browser.ask("POST", urlsplit(query["redirect_uri"]).path, form, Origin=platform.url)


def test_a_learner_is_launched_into_an_account(
    course: Any, browser: Any, platform: Platform
) -> None:
    answer = launch(browser, platform)
    assert answer.status == 200 and 'url=/labs"' in answer.text, answer.text
    cookies = [v for name, v in answer.getheaders() if name.lower() == "set-cookie"]
    names = [c.partition("=")[0] for c in cookies]
    assert names[0] == "course_session" and names[1].startswith("course_lti_")
    assert "SameSite=strict" in cookies[0] and "Max-Age=0" in cookies[1]
    assert "Ada L." in browser.get("/labs").text
    person = course.server.course.store.roster.find("ada")
    assert (person.role, person.email) == ("learner", "ada@example.org")
    assert launch(browser, platform, name="Another").status == 200
    assert course.server.course.store.roster.find("ada") == person
    assert len(course.server.course.store.roster.learners()) == 1


ROLES: list[tuple[Any, str]] = [
    ([f"{MEMBER}#Instructor"], "instructor"),
    ([f"{MEMBER}#Instructor", f"{MEMBER}/Instructor#TeachingAssistant"], "assistant"),
    ([f"{MEMBER}/instructor#TeachingAssistant"], "assistant"),
    (["Learner"], "learner"),
]
NO_ROLES: list[Any] = [
    # A professor who takes the course, and the administrator of the platform.
    ["http://purl.imsglobal.org/vocab/lis/v2/institution/person#Instructor"],
    ["http://purl.imsglobal.org/vocab/lis/v2/system/person#Administrator"],
    [f"{MEMBER}/Learner#Instructor"],
    [f"{MEMBER}/Mentor#Instructor", f"{MEMBER}#Mentor"],
    ["http://evil.example/membership#Instructor"],
    [],
    None,
    f"{MEMBER}#Instructor",
]


def test_the_role_is_that_of_the_platforms_course(
    course: Any, browser: Any, platform: Platform
) -> None:
    for number, (roles, role) in enumerate(ROLES):
        named = {"sub": f"s{number}", "custom": {"login": f"l{number}", "lab": "first"}}
        answer = launch(browser, platform, roles=roles, **named)
        assert answer.status == 200
        assert course.server.course.store.roster.find(f"l{number}").role == role
        assert ("/gradebook?lab=01_first" in answer.text) == (role != "learner")
    for roles in NO_ROLES:
        answer = launch(browser, platform, roles=roles)
        assert answer.status == 403 and "your roles" in answer.text
    assert course.server.course.store.roster.find("ada") is None


def test_a_role_follows_the_platform_and_is_on_record(
    course: Any, browser: Any, platform: Platform
) -> None:
    for role in ("Learner", "Instructor", "Learner"):
        assert launch(browser, platform, roles=[f"{MEMBER}#{role}"]).status == 200
        assert course.server.course.store.roster.find("ada").role == role.lower()
    assert browser.get("/gradebook").status == 403
    instructor = browser.__class__(course.staff.server)
    instructor.log_in(course.staff.token)
    assert instructor.get("/audit").text.count("moodle") == 3


def test_a_login_that_is_taken_is_refused_with_what_to_do(
    course: Any, browser: Any, platform: Platform
) -> None:
    """Whoever chooses their login on the platform becomes nobody of this course by it."""
    roster = course.server.course.store.roster
    roster.add("grace", "learner")
    for login in ("grace", "GRACE", "instructor"):
        answer = launch(browser, platform, custom={"login": login})
        assert answer.status == 403 and "is somebody else" in answer.text
        assert "course_session=" not in str(answer.getheaders())
    assert launch(browser, platform).status == 200
    assert launch(browser, platform, sub="person-2").status == 403
    assert launch(browser, platform, custom={"login": "other"}).status == 200  # known by `sub`
    assert roster.find("other") is None


def test_people_of_the_roster_are_taken_for_the_same_where_the_operator_says_so(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    with start(lti=describe("match_roster = true")) as running:
        roster, browser = running.server.course.store.roster, browse(running.staff.server)
        ada, grace = roster.add("ada", "learner"), roster.add("grace", "assistant")
        assert launch(browser, platform).status == 200
        assert roster.find("ada") == ada
        for subject, login in (("person-2", "ada"), ("3", "grace"), ("4", "Ada")):
            answer = launch(browser, platform, sub=subject, custom={"login": login})
            assert answer.status == 403 and "is somebody else" in answer.text
        teacher = [f"{MEMBER}#Instructor"]
        named = {"sub": "5", "custom": {"login": "instructor"}, "roles": teacher}
        assert launch(browser, platform, **named).status == 403
        assert roster.find("grace") == grace


NOT_OURS: list[dict[str, Any]] = [
    {"aud": "another"},
    {"aud": ["course", "another"]},
    {"aud": ["course", "another"], "azp": "another"},
    {"azp": "another"},
    {"aud": None},
    {"iss": "https://evil.example"},
    {"exp": 1},
    {"exp": None},
    {"iat": int(time.time()) + 3600},
    {"iat": None},
    {"nonce": "another"},
    {"nonce": None},
    {"deployment_id": "8"},
    {"deployment_id": None},
    {"version": "1.1"},
    {"message_type": "LtiDeepLinkingRequest"},
    {"sub": None},
    {"sub": 5},
    {"sub": "s" * 256},
    {"custom": None},
    {"custom": {"login": 5}},
]


def test_a_token_that_is_not_for_this_launch_is_refused(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    with start(lti=describe(), wrong_logins=100) as course:
        browser = browse(course.staff.server)
        for changes in NOT_OURS:
            answer = launch(browser, platform, **changes)
            assert answer.status == 403, changes
            assert "course_session=" not in str(answer.getheaders())
        assert len(course.server.course.store.roster.learners()) == 0


def packed(values: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()


def test_a_token_that_the_platform_did_not_sign_is_refused(
    course: Any, browser: Any, platform: Platform
) -> None:
    platform.key = foreign_key()
    assert launch(browser, platform).status == 403
    platform.key = signing_key()
    for secret in (
        signing_key().as_pem(private=False),
        json.dumps(signing_key().as_dict(private=False)).encode(),
    ):
        query = begin(browser, platform)
        head = packed({"alg": "HS256", "kid": "one"})
        text = f"{head}.{packed(platform.claims(nonce=query['nonce']))}"
        sign = hmac.digest(secret, text.encode(), "sha256")
        for token in (f"{text}.{base64.urlsafe_b64encode(sign).rstrip(b'=').decode()}", "", "a.b"):
            form = {"state": query["state"], "id_token": token}
            assert browser.ask("POST", "/lti/launch", form).status == 403
    query = begin(browser, platform)
    head, body, _ = platform.signed(query).split(".")
    none = packed({"alg": "none"})
    for token in (f"{none}.{body}.", f"{head}.{body}."):
        form = {"state": query["state"], "id_token": token}
        assert browser.ask("POST", "/lti/launch", form).status == 403
    assert len(course.server.course.store.roster.learners()) == 0


def test_a_launch_passes_once_and_only_in_the_browser_that_asked(
    course: Any, browser: Any, browse: Any, platform: Platform
) -> None:
    other = browse(course.staff.server)
    query = begin(browser, platform)
    form = {"state": query["state"], "id_token": platform.signed(query)}
    answer = other.ask("POST", "/lti/launch", form)
    assert answer.status == 403 and "kept no cookie" in answer.text
    begin(other, platform)
    assert other.ask("POST", "/lti/launch", form).status == 403
    for state in ("", "another"):
        assert browser.ask("POST", "/lti/launch", {**form, "state": state}).status == 403
    cookie = browser.cookie
    assert browser.ask("POST", "/lti/launch", form).status == 200
    browser.cookie = cookie  # which the answer has taken away
    answer = browser.ask("POST", "/lti/launch", form)
    assert answer.status == 403 and "used already" in answer.text


def test_two_labs_that_are_opened_at_once_are_both_launched_in_any_order(
    course: Any, browser: Any, platform: Platform
) -> None:
    queries, cookies = [], []
    for _ in range(2):
        queries.append(begin(browser, platform))
        cookies.append(browser.cookie)
    for query in reversed(queries):
        browser.cookie = "; ".join(cookies)
        form = {"state": query["state"], "id_token": platform.signed(query)}
        assert browser.ask("POST", "/lti/launch", form).status == 200


def test_what_the_platform_refuses_is_said(course: Any, browser: Any, platform: Platform) -> None:
    query = begin(browser, platform)
    said = {"state": query["state"], "error": "login_required", "error_description": "<b>Who?"}
    answer = browser.ask("POST", "/lti/launch", said)
    assert answer.status == 403 and "&lt;b&gt;Who?" in answer.text


def test_a_platform_that_nobody_described_is_refused_and_counted(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    with start(lti=describe(), wrong_logins=3) as running:
        browser = browse(running.staff.server)
        said = {"iss": "https://evil.example", "client_id": "course", "login_hint": "h"}
        paths = [f"/lti/login?{urlencode(said)}", "/lti/login"]
        answers = [browser.get(path).status for path in (*paths, *paths)]
        assert answers == [403, 403, 403, 429]
        assert browser.ask("POST", "/lti/launch", {"state": "s", "id_token": "t"}).status == 429
        assert launch(browser, platform).status == 200


def test_inside_a_page_of_the_platform_the_course_opens_a_window(
    course: Any, browser: Any, platform: Platform
) -> None:
    """There browsers keep no cookie of ours, and show nothing that could be clicked unseen."""
    said = {"iss": platform.url, "client_id": "course", "login_hint": "h", "x": '"'}
    for method in ("GET", "POST"):
        path = f"/lti/login?{urlencode(said)}" if method == "GET" else "/lti/login"
        form = said if method == "POST" else None
        answer = browser.ask(method, path, form, Sec_Fetch_Dest="iframe")
        assert answer.status == 200 and 'target="_blank"' in answer.text
        assert "frame-ancestors" not in answer.getheader("Content-Security-Policy")
        assert "Set-Cookie" not in dict(answer.getheaders())
        link = re.search(r'href="(/lti/login[^"]*)"', answer.text)
        assert link and browser.get(link[1].replace("&amp;", "&")).status == 303
    assert "frame-ancestors 'none'" in browser.get("/login").getheader("Content-Security-Policy")


def test_other_courses_of_the_platform_are_refused(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    with start(lti=describe('contexts = ["ctx"]')) as running:
        browser = browse(running.staff.server)
        assert launch(browser, platform, context={"id": "another"}).status == 403
        assert launch(browser, platform, context=None).status == 403
        assert launch(browser, platform).status == 200


def test_a_lab_is_named_by_the_link_or_its_address(
    course: Any, browser: Any, platform: Platform
) -> None:
    teacher = {"roles": [f"{MEMBER}#Instructor"]}
    named = {"custom": {"login": "t"}, **teacher}
    uri = f"{course.staff.server}/lti/launch?lab=02_second"
    assert "lab=02_second" in launch(browser, platform, target_link_uri=uri, **named).text
    assert 'url=/gradebook"' in launch(browser, platform, **named).text
    answer = launch(browser, platform, custom={"login": "t", "lab": "none"}, **teacher)
    assert answer.status == 404 and "Tell your instructor" in answer.text


def test_keys_that_cannot_be_read_are_said_so(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    with start(lti=describe(url=f"{platform.url}/nowhere"), **QUICK) as running:
        browser = browse(running.staff.server)
        said = {"iss": platform.url, "login_hint": "h"}
        url = browser.get(f"/lti/login?{urlencode(said)}").getheader("Location")
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        form = {"state": query["state"], "id_token": platform.signed(query)}
        assert browser.ask("POST", "/lti/launch", form).status == 502


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a]", "client_id"),
        ("[a", "lti.toml"),
        ("", "at least one platform"),
        ("a = 1", "expected tables"),
    ],
)
def test_a_file_of_platforms_that_says_something_else_is_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "lti.toml"
    path.write_text(text)
    with pytest.raises(StartError, match=says):
        read_platforms(path)


@pytest.mark.parametrize(
    "line", ["unknown = 1", 'login = ["a"]', 'contexts = "a"', "match_roster = 1", "contexts = [1]"]
)
def test_a_key_of_the_file_that_is_wrong_is_named(describe: Any, line: str) -> None:
    path = describe()
    lines = [x for x in path.read_text().splitlines() if not x.strip().startswith(line[:5])]
    path.write_text("\n".join([*lines, line]))
    with pytest.raises(StartError, match=line.split()[0]):
        read_platforms(path)


def test_addresses_without_tls_and_platforms_without_a_deployment_are_refused(
    describe: Any,
) -> None:
    for old, new in (("http://127.0.0.1", "http://moodle.example"), ('["7"]', "[]")):
        path = describe()
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(StartError, match="moodle"):
            read_platforms(path)


def test_a_grade_is_sent_when_it_is_published_and_whenever_it_changes(
    course: Any, browser: Any, platform: Platform
) -> None:
    """By the grader, by a person, by a re-grading, by a date."""
    parts = course.server.course
    launch(browser, platform)
    number = course.enroll("bob").submit("first", RIGHT.encode())["id"]
    assert course.wait(number) == "graded"  # whom the platform does not know: nothing is sent
    ada = submit_as(course, "ada", ANSWERED)
    [first] = platform.wait(1)
    assert first["path"] == "/items/1/scores?type_id=3" and first["userId"] == "person-1"
    assert (first["scoreGiven"], first["scoreMaximum"]) == (4.0, 6.0)
    assert (first["activityProgress"], first["gradingProgress"]) == ("Completed", "PendingManual")
    assert re.fullmatch(r"[-0-9]+T[:0-9]+\.\d{3}\+00:00", first["timestamp"])
    instructor = parts.store.roster.find("instructor")
    parts.store.submissions.mark(ada, {"why": {"points": 2}}, instructor)
    second = platform.wait(2)[1]
    assert (second["scoreGiven"], second["gradingProgress"]) == (6.0, "FullyGraded")
    course.grader.right = "nothing"
    batch = parts.store.regrades.start("01_first", None, instructor)
    parts.queue.wake()
    assert course.wait(ada) == "graded"
    pause = threading.Event()
    while parts.store.regrades.get(batch)[0].state == "running":
        pause.wait(0.01)
    assert len(platform.scores) == 2  # learners see no change either
    parts.store.regrades.publish(batch, instructor)
    assert platform.wait(3)[2]["scoreGiven"] == 2.0
    rules = Rules(due="2020-01-01T00:00:00+00:00", penalty_per_day=1.0)
    parts.store.dates.set_rules("01_first", rules, instructor)
    assert platform.wait(4)[3]["scoreGiven"] == 0.0
    parts.store.dates.extend(
        "01_first", parts.store.roster.find("ada"), "2100-01-01T00:00:00+00:00", instructor
    )
    assert platform.wait(5)[4]["scoreGiven"] == 2.0
    times = [score["timestamp"] for score in platform.scores]
    assert times == sorted(times)


def submit_as(course: Any, login: str, text: str) -> int:
    """Hand in, wait for the grade, and return the number."""
    parts = course.server.course
    number = parts.store.submissions.add(
        parts.store.roster.find(login), "01_first", text.encode()
    ).id
    parts.queue.wake()
    assert course.wait(number) == "graded"
    return int(number)


def test_what_is_held_back_is_sent_once_it_is_released(
    course: Any, browser: Any, platform: Platform
) -> None:
    parts = course.server.course
    instructor = parts.store.roster.find("instructor")
    parts.store.dates.set_rules("01_first", Rules(held=True), instructor)
    launch(browser, platform)
    submit_as(course, "ada", RIGHT)
    pause = threading.Event()
    while parts.lti.passback.outbox.describe_waiting()["waiting"]:
        pause.wait(0.01)
    assert not platform.scores
    parts.store.dates.set_rules("01_first", Rules(), instructor)
    assert platform.wait(1)[0]["scoreGiven"] == 4.0


def test_what_staff_decide_about_a_lab_is_sent_whatever_was_handed_in(
    course: Any, browser: Any, platform: Platform
) -> None:
    parts = course.server.course
    store, instructor = parts.store, parts.store.roster.find("instructor")
    launch(browser, platform)
    ada = store.roster.find("ada")

    def set_to(**decision: Any) -> None:
        decide(Edit(store.database, time.time, instructor), "01_first", ada, decision)

    set_to(points=7, max_score=8)
    assert platform.wait(1)[0]["scoreGiven"] == 7 and platform.scores[0]["scoreMaximum"] == 8
    store.dates.set_rules("01_first", Rules(held=True), instructor)
    set_to(points=3, max_score=8)
    pause = threading.Event()
    while parts.lti.passback.outbox.describe_waiting()["waiting"]:
        pause.wait(0.01)
    assert len(platform.scores) == 1
    store.dates.set_rules("01_first", Rules(), instructor)
    assert platform.wait(2)[1]["scoreGiven"] == 3
    set_to()
    submit_as(course, "ada", RIGHT)
    assert platform.wait(3)[2]["scoreGiven"] == 4


def test_who_had_a_grade_before_the_first_launch_has_it_sent(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    with start(lti=describe("match_roster = true"), **QUICK) as course:
        platform.tool = course.staff.server
        browser = browse(course.staff.server)
        for login in ("ada", "bob"):
            course.server.course.store.roster.add(login, "learner")
            submit_as(course, login, RIGHT)
        nothing = {"sub": "person-2", "custom": {"login": "bob"}}
        launch(browser, platform, **nothing)
        launch(browser, platform)
        sent = platform.wait(2)  # bob's by ada's launch, which says where the lab's grades go
        assert {score["userId"] for score in sent} == {"person-1", "person-2"}


def entitle(labs: Path) -> None:
    """Give the first lab a title, by which platforms call it."""
    lab = labs / "01_first" / "lab.py"
    lab.write_text(f"# %% [markdown]\n# # Scale & sum\n\n{lab.read_text()}")


def test_where_the_link_has_no_line_item_one_is_made_once(
    course: Any, browser: Any, platform: Platform, labs: Path
) -> None:
    entitle(labs)
    only = {"scope": SCOPES, "lineitems": f"{platform.url}/items"}
    launch(browser, platform, **{f"{GRADES}claim/endpoint": only})
    submit_as(course, "ada", RIGHT)
    assert platform.wait(1)[0]["path"] == "/items/2/scores"
    [item] = platform.items.values()
    assert (item["label"], item["resourceId"]) == ("Scale & sum", "01_first")
    assert item["scoreMaximum"] == 4.0
    submit_as(course, "ada", ANSWERED)
    assert platform.wait(2)[1]["path"] == "/items/2/scores" and len(platform.items) == 1
    platform.refuse = [404]  # somebody has deleted it, and it is found or made again
    course.server.course.store.submissions.mark(
        2, {"why": {"points": 2}}, course.server.course.store.roster.find("instructor")
    )
    assert platform.wait(3)[2]["scoreGiven"] == 6.0 and len(platform.items) == 1


def test_without_any_line_item_staff_are_told_and_the_grade_stays(
    course: Any, browser: Any, browse: Any, platform: Platform
) -> None:
    launch(browser, platform, **{f"{GRADES}claim/endpoint": None})
    submit_as(course, "ada", RIGHT)
    staff = browse(course.staff.server)
    staff.log_in(course.staff.token)
    wait_for(staff, "no line item")
    launch(browser, platform)
    assert platform.wait(1)[0]["scoreGiven"] == 4.0
    wait_for(staff, "0 grades wait")


def wait_for(browser: Any, text: str) -> str:
    """Return the page of the queue once it says so."""
    pause = threading.Event()
    while text not in (page := str(browser.get("/queue").text)):
        pause.wait(0.02)
    return page


def test_what_the_platform_refuses_is_sent_again(
    course: Any, browser: Any, platform: Platform
) -> None:
    submissions, roster = course.server.course.store.submissions, course.server.course.store.roster
    launch(browser, platform)
    number = submit_as(course, "ada", ANSWERED)
    platform.wait(1)
    for count, refused in enumerate(([401], [500, 503, 401], [401, 401, 401], [403, 409, 429]), 1):
        platform.refuse = list(refused)
        submissions.mark(number, {"why": {"points": count / 4}}, roster.find("instructor"))
        assert platform.wait(1 + count)[count]["scoreGiven"] == 4.0 + count / 4
        assert not platform.refuse


def test_staff_see_what_could_not_be_sent_and_send_it_again(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    quick = {**QUICK, "passback_again_s": 3000.0}
    with start(lti=describe(), **quick) as course:
        platform.tool = course.staff.server
        browser, staff = browse(course.staff.server), browse(course.staff.server)
        platform.refuse = [500]
        launch(browser, platform)
        submit_as(course, "ada", RIGHT)
        staff.log_in(course.staff.token)
        assert "1 grade waits" in wait_for(staff, "POST http://127.0.0.1")
        assert browser.ask("POST", "/lti/again", Origin=course.staff.server).status == 403
        assert staff.ask("POST", "/lti/again", Origin="https://evil.example").status == 403
        assert not platform.scores
        assert staff.ask("POST", "/lti/again", Origin=course.staff.server).status == 303
        assert platform.wait(1)[0]["scoreGiven"] == 4.0
        wait_for(staff, "0 grades wait")
        assert "01_first: ada" in staff.get("/audit").text


def test_a_platform_that_is_away_is_asked_once_for_all(
    database_url: Any, describe: Any, platform: Platform
) -> None:
    store = Store(database_url)
    [described] = read_platforms(describe(url=f"{platform.url}/nowhere"))
    for login in ("ada", "bob"):
        with_grade(store, described, login)
    outbox = Outbox(store.database, store.clock, 3000.0)
    passback = Passback(
        outbox,
        store.submissions,
        [described],
        signing_key().as_pem(private=True),
        str,
        clock=store.clock,
        look_s=1.0,
    )
    assert passback.send_next() and not passback.send_next()
    found = outbox.describe_waiting()
    assert found["waiting"] == len(found["failing"]) == 2
    assert all("no token" in line["problem"] for line in found["failing"])
    assert platform.asked == ["/nowhere/token"]
    store.close()


def test_a_grade_outlives_the_server_that_gave_it(
    start: Any, describe: Any, browse: Any, platform: Platform
) -> None:
    """Stopped after the grade and before it is sent: the next server sends it, once."""
    with start(lti=describe(), **QUICK) as course:
        platform.tool = course.staff.server
        platform.refuse = [500] * 10_000
        launch(browse(course.staff.server), platform)
        submit_as(course, "ada", RIGHT)
    assert not platform.scores
    platform.refuse = []
    with start(lti=describe(), **QUICK) as course:
        platform.tool = course.staff.server
        assert platform.wait(1)[0]["scoreGiven"] == 4.0
        pause = threading.Event()
        while course.server.course.lti.passback.outbox.describe_waiting()["waiting"]:
            pause.wait(0.02)
        assert len(platform.scores) == 1


def test_of_two_servers_one_sends_and_what_one_left_the_other_sends_later(
    database_url: Any, describe: Any
) -> None:
    """The lease of a row is a time, so that of a server that was killed ends."""
    now = [1000.0]
    stores = [Store(database_url, clock=lambda: now[0]) for _ in range(2)]
    boxes = [Outbox(store.database, store.clock, 10.0) for store in stores]
    [described] = read_platforms(describe())
    with_grade(stores[0], described, "ada")
    first = boxes[0].take(["moodle"])
    assert first and first.login == "ada" and boxes[1].take(["moodle"]) is None
    now[0] += 200.0
    second = boxes[1].take(["moodle"])
    assert second and second.rows == first.rows
    boxes[1].note_failure(second, "away", everything=True)
    assert boxes[0].take(["moodle"]) is None
    now[0] += 11.0
    third = boxes[0].take(["moodle"])
    assert third and third.tries == 1
    assert boxes[0].describe_waiting()["failing"][0]["problem"] == "away"
    boxes[0].note_sent(third, {"score": 1.0})
    assert boxes[1].describe_waiting() == {"waiting": 0, "failing": []}
    for store in stores:
        store.close()


def with_grade(store: Store, platform: Any, login: str) -> None:
    """Let somebody be launched into a lab and have a grade there."""
    found = Launch(platform, login, login, "", "", "learner", "c", "lab", "http://127.0.0.1/1", "")
    person = LtiPeople(store.database, store.clock).take(found, "lab")
    store.submissions.add(person, "lab", login.encode())
    claim = store.claims.claim("a", 10)
    assert claim
    report = Report("lab", (CheckResult("c", "q", Outcome.CORRECT, 1.0, 1.0),)).with_totals()
    assert store.claims.finish(claim.id, "a", report)


def test_the_keys_of_a_platform_are_kept_and_looked_for_again_when_one_is_new() -> None:
    now, there, fetched = [0.0], [signing_key()], list[str]()
    another = RSAKey.generate_key(2048, {"kid": "two"})

    def fetch(url: str) -> dict[str, Any]:
        fetched.append(url)
        return {"keys": [key.as_dict(private=False) for key in there]}

    sets = KeySets(fetch, clock=lambda: now[0])

    def claims(key: RSAKey) -> Any:
        token = jwt.encode({"alg": "RS256", "kid": key.kid}, {"sub": "x"}, key)
        return sets.claims("https://platform/keys", token, ["RS256"])

    for _ in range(3):
        assert claims(signing_key()) == {"sub": "x"}
    assert len(fetched) == 1
    with pytest.raises(InvalidKeyIdError):
        claims(another)
    assert len(fetched) == 2
    there.append(another)
    assert claims(another) == claims(signing_key()) == {"sub": "x"}
    assert len(fetched) == 3
    with pytest.raises(BadSignatureError):
        claims(foreign_key())  # it says the id of a key that is known
    assert len(fetched) == 3
    there.remove(signing_key())
    now[0] = 3600.0
    with pytest.raises(InvalidKeyIdError):
        claims(signing_key())  # a key that was taken back is not trusted for ever
    assert len(fetched) == 4


def test_launches_ask_the_platform_once_for_its_keys(
    course: Any, browser: Any, platform: Platform
) -> None:
    for _ in range(3):
        assert launch(browser, platform).status == 200
    assert platform.keys_asked == 1


def test_a_private_key_that_cannot_be_read_is_said(
    start: Any, describe: Any, settings: Any
) -> None:
    settings.data.mkdir()
    (settings.data / "lti.key").write_text("-----BEGIN nothing")
    with (
        pytest.raises(StartError, match=r"lti\.key, cannot be read\. Delete it"),
        start(lti=describe()),
    ):
        pass


# ── labs chosen for the platform, and people that it lists ──────────────────────────────────────


def wanted(platform: Platform, **settings: Any) -> dict[str, Any]:
    """Return the claims of a launch that wants labs chosen; the settings are as given."""
    asked = {
        "deep_link_return_url": f"{platform.url}/back?a=b",
        "accept_types": ["ltiResourceLink", "file"],
        "accept_presentation_document_targets": ["window"],
        "data": "keep <this>",
        **settings,
    }
    claims = {"message_type": "LtiDeepLinkingRequest", "roles": [f"{MEMBER}#Instructor"]}
    return {**claims, f"{LINKS}deep_linking_settings": asked, "custom": {"login": "grace"}}


def field(page: Any, name: str) -> str:
    match = re.search(rf'name="{name}" value="([^"]+)"', page.text)
    assert match, page.text
    return match[1]


@pytest.mark.parametrize("several", [False, True])
def test_whoever_teaches_chooses_labs_and_the_platform_gets_signed_links(
    course: Any, browser: Any, platform: Platform, several: bool, labs: Path
) -> None:
    entitle(labs)
    page = launch(browser, platform, **wanted(platform, accept_multiple=several))
    assert page.status == 200 and ('type="checkbox"' in page.text) == several
    assert "Scale &amp; sum</label>" in page.text
    chosen = {"01_first": "on"} if several else {"lab": "01_first"}
    form = {"asked": field(page, "asked"), **chosen}
    answer = browser.ask("POST", "/lti/links", form, Origin=course.staff.server)
    assert answer.status == 200 and f'action="{platform.url}/back?a=b"' in answer.text
    assert f"form-action {platform.url};" in answer.getheader("Content-Security-Policy")
    with urlopen(f"{course.staff.server}/lti/keys", timeout=30) as found:
        keys = KeySet.import_key_set(json.load(found))
    token = jwt.decode(field(answer, "JWT"), keys, algorithms=["RS256"])
    claims = token.claims
    assert (claims["iss"], claims["aud"]) == ("course", [platform.url])
    assert claims["iat"] <= time.time() < claims["exp"] and claims["nonce"]
    assert claims[f"{CLAIM}message_type"] == "LtiDeepLinkingResponse"
    assert claims[f"{CLAIM}deployment_id"] == "7" and claims[f"{LINKS}data"] == "keep <this>"
    [item] = claims[f"{LINKS}content_items"]
    assert (item["type"], item["custom"]) == ("ltiResourceLink", {"lab": "01_first"})
    assert item["title"] == "Scale & sum" and "<li>Scale &amp; sum</li>" in answer.text
    opened = launch(browser, platform, target_link_uri=item["url"], custom={"login": "grace"})
    assert opened.status == 200


def test_links_are_refused_to_learners_and_to_whoever_was_not_asked(
    course: Any, browser: Any, browse: Any, platform: Platform
) -> None:
    learner = {**wanted(platform), "roles": [f"{MEMBER}#Learner"]}
    assert "whoever teaches" in launch(browser, platform, **learner).text
    for settings in ({"deep_link_return_url": "javascript:alert(1)"}, {"accept_types": ["file"]}):
        asked = {**wanted(platform, **settings), "sub": "2", "custom": {"login": "hopper"}}
        assert launch(browser, platform, **asked).status == 403
    teacher = {**wanted(platform), "sub": "3", "custom": {"login": "edsger"}}
    page = launch(browser, platform, **teacher)
    here = {"Origin": course.staff.server}
    form = {"asked": field(page, "asked"), "lab": "01_first"}
    assert browser.ask("POST", "/lti/links", {**form, "lab": "none"}, **here).status == 422
    assert browser.ask("POST", "/lti/links", {**form, "asked": "a.b"}, **here).status == 403
    other = browse(course.staff.server)
    other.log_in(course.staff.token)
    assert other.ask("POST", "/lti/links", form, **here).status == 403  # asked of edsger
    assert browser.ask("POST", "/lti/links", form, Origin="https://evil.example").status == 403


def member(number: str, login: str, role: str = "Learner", **more: Any) -> dict[str, Any]:
    claim = {f"{CLAIM}custom": {"login": login}}
    known = {"user_id": number, "roles": [role], "status": "Active", "name": login.title()}
    return {**known, "email": f"{login}@example.org", "message": [claim], **more}


def listed(platform: Platform) -> dict[str, Any]:
    """Return the claims of an instructor's launch that says where the people are."""
    services = {"context_memberships_url": f"{platform.url}/members", "service_versions": ["2.0"]}
    teacher = {"sub": "t", "custom": {"login": "grace"}, "roles": [f"{MEMBER}#Instructor"]}
    return {f"{NAMES}claim/namesroleservice": services, **teacher}


def test_people_whom_the_platform_lists_are_taken_over_once_staff_have_seen_them(
    course: Any, browser: Any, platform: Platform
) -> None:
    here, roster = {"Origin": course.staff.server}, course.server.course.store.roster
    empty = launch(browser, platform, **{**listed(platform), f"{NAMES}claim/namesroleservice": {}})
    assert empty.status == 200 and "platform" not in browser.get("/people").text
    assert browser.ask("POST", "/lti/roster", {}, **here).status == 404
    assert launch(browser, platform, **listed(platform)).status == 200
    assert launch(browser, platform, sub="gone", custom={"login": "left"}).status == 200
    roster.add("taken", "learner")
    platform.members = [
        member("t", "grace", f"{MEMBER}#Instructor"),
        member("1", "ada"),
        member("2", "bob", "TeachingAssistant"),
        member("3", "eve", status="Inactive"),
        member("4", "taken"),
        member("5", "", message=[]),
        member("6", "mentor", "Mentor"),
    ]
    launch(browser, platform, **listed(platform))  # the present browser is the teacher's again
    assert "The people of the platform" in browser.get("/people").text
    page = browser.ask("POST", "/lti/roster", {}, **here)
    assert "2 added, 0 changed, 1 unchanged" in page.text and "Take it over" in page.text
    for problem in ("taken: launch: the login", "their custom.login", "your roles"):
        assert problem.replace("'", "&#39;") in page.text, page.text
    assert "lists 1 no more" in page.text and "left" in page.text
    assert roster.find("ada") is None
    page = browser.ask("POST", "/lti/roster", {"sure": "1"}, **here)
    assert "is taken over" in page.text
    assert "added: 2" in browser.get("/audit").text
    assert (roster.find("ada").role, roster.find("bob").role) == ("learner", "assistant")
    assert roster.find("ada").email == "ada@example.org" and roster.find("eve") is None
    assert launch(browser, platform, sub="1", custom={"login": "ada"}).status == 200
    assert len([p for p in roster.learners() if p.login == "ada"]) == 1


def test_the_platforms_people_by_the_api_and_the_command_line(
    course: Any, browser: Any, platform: Platform, capsys: Any
) -> None:
    launch(browser, platform, **listed(platform))
    platform.members = [member("1", "ada"), member("6", "mentor", "Mentor")]
    arguments = ["--server", course.staff.server, "--token", course.staff.token]
    assert main(["roster", "platform", "--dry-run", *arguments]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("Would be: 1 added, 0 changed, 0 unchanged, 0 removed.")
    assert "grace: the platform lists them no more" in said.out and "Mentor" in said.err
    assert course.server.course.store.roster.find("ada") is None
    assert main(["roster", "platform", *arguments]) == 1
    assert course.server.course.store.roster.find("ada").role == "learner"


def test_a_platform_that_lists_nobody_is_named(
    course: Any, browser: Any, platform: Platform
) -> None:
    services = {"context_memberships_url": f"{platform.url}/nowhere"}
    launch(browser, platform, **{**listed(platform), f"{NAMES}claim/namesroleservice": services})
    answer = browser.ask("POST", "/lti/roster", {}, Origin=course.staff.server)
    assert answer.status == 502 and "moodle does not list people" in answer.text
