"""Signing in through somebody else: a provider that speaks the protocol, and its lies."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from tests.autograder.service.keys import foreign_key, signing_key

LEFT_OUT = object()  # a lie: the ID token does not have this claim
CLIENT = {"client_id": "course", "client_secret": "sesame"}


class Provider(ThreadingHTTPServer):
    """OpenID Connect and the hub's OAuth, as their documents say; `lies` changes the ID token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: dict[str, dict[str, str]] = {}
        self.login, self.key, self.lies = "ada", signing_key(), dict[str, Any]()
        self.metadata, self.user_info = dict[str, Any](), dict[str, Any]()

    def authorize(self, query: dict[str, str]) -> str:
        """Return where a browser is led back to; the user says yes."""
        assert query["client_id"] == "course" and query["response_type"] == "code"
        code = secrets.token_hex(8)
        self.asked[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Return a token for a code, if `authorization` is our secret as Basic has it."""
        asked = self.asked.pop(form["code"], None)
        expected = base64.b64encode(b"course:sesame").decode()
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        if asked is None or authorization != f"Basic {expected}":
            return None
        if asked["code_challenge"] != proof or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        claims = {
            "iss": self.url,
            "aud": "course",
            "sub": "1",
            "exp": int(time.time()) + 300,
            "nonce": asked.get("nonce"),
            "preferred_username": self.login,
            **self.lies,
        }
        claims = {name: value for name, value in claims.items() if value is not LEFT_OUT}
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        return {"access_token": "of-the-user", "token_type": "Bearer", "id_token": signed}


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        provider, path = self.server, urlsplit(self.path).path
        if path == "/.well-known/openid-configuration":
            names = ("authorization", "token")
            found = {f"{name}_endpoint": f"{provider.url}/{name}" for name in names}
            found |= {"issuer": provider.url, "jwks_uri": f"{provider.url}/keys"}
            self.say(found | provider.metadata)
        elif path == "/userinfo":
            assert self.headers["Authorization"] == "Bearer of-the-user"
            self.say(provider.user_info)
        elif path == "/keys":
            self.say({"keys": [signing_key().as_dict(private=False)]})
        elif path == "/hub/api/user":
            assert self.headers["Authorization"] == "Bearer of-the-user"
            self.say({"name": provider.login, "kind": "user"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        stated = self.headers.get("Authorization", "")
        methods = self.server.metadata.get("token_endpoint_auth_methods_supported")
        if self.path.startswith("/hub/") or methods == ["client_secret_post"]:
            pair = f"{form.get('client_id')}:{form.get('client_secret')}"
            stated = f"Basic {base64.b64encode(pair.encode()).decode()}"
        found = self.server.token(form, stated)
        self.say(found or {"error": "invalid_grant"}, 200 if found else 400)

    def say(self, found: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(params=["openid_issuer", "jupyterhub"])
def course(request: pytest.FixtureRequest, provider: Provider, start: Any) -> Any:
    with start(**{request.param: provider.url}, **CLIENT) as running:
        running.server.course.store.roster.add("ada", "learner")
        yield running


@pytest.fixture
def of_openid(provider: Provider, start: Any) -> Any:
    with start(openid_issuer=provider.url, **CLIENT) as running:
        running.server.course.store.roster.add("ada", "learner")
        yield running


def there_and_back(browser: Any, provider: Provider, next: str = "/labs") -> Any:
    """Go to the provider and return what the server answers when the browser is back."""
    away = browser.ask("GET", f"/signin?{urlencode({'next': next})}")
    assert away.status == 303
    url = urlsplit(away.getheader("Location"))
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    back = urlsplit(provider.authorize(query))
    assert back.path == "/signin/return"
    return browser.ask("GET", f"{back.path}?{back.query}")


def test_whoever_the_provider_names_is_logged_in(
    course: Any, provider: Provider, browse: Any
) -> None:
    browser = browse(course.staff.server)
    assert "/signin?next=/labs" in browser.get("/login?next=/labs").text
    answer = there_and_back(browser, provider)
    assert answer.status == 200 and 'url=/labs"' in answer.text
    session = next(
        value for name, value in answer.getheaders() if value.startswith("course_session=")
    )
    browser.cookie = session.partition(";")[0]
    assert "ada" in browser.get("/labs").text


def test_a_token_that_has_ended_does_not_end_the_session_of_a_sign_in(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    roster = of_openid.server.course.store.roster
    roster.give_token(roster.find("ada"), "bearer", expires_at=1.0)
    answer = there_and_back(browse(of_openid.staff.server), provider)
    sessions = roster.sessions(roster.find("ada"))
    assert answer.status == 200 and len(sessions) == 1


def test_whoever_is_not_on_the_roster_is_refused(
    course: Any, provider: Provider, browse: Any
) -> None:
    for login in ("eve", "ADA", "ａｄａ", ""):
        provider.login = login
        answer = there_and_back(browse(course.staff.server), provider)
        assert answer.status == 403 and "roster" in answer.text


def test_whoever_is_called_instructor_elsewhere_is_not_the_first_instructor_here(
    course: Any, provider: Provider, browse: Any
) -> None:
    """That account belongs to whoever holds the token; anybody may call themselves so there."""
    provider.login = course.server.course.store.roster.owner(course.staff.token, "bearer").login
    answer = there_and_back(browse(course.staff.server), provider)
    assert answer.status == 403 and "course_session" not in str(answer.getheaders())


def test_no_login_is_not_a_login_called_none(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    of_openid.server.course.store.roster.add("None", "learner")
    provider.lies = {"preferred_username": None}
    assert there_and_back(browse(of_openid.staff.server), provider).status == 403


def test_what_the_id_token_lacks_is_asked_of_the_provider(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    """Many put what a scope asks for only there: OpenID Connect Core, 5.4."""
    provider.metadata = {"userinfo_endpoint": f"{provider.url}/userinfo"}
    provider.lies = {"preferred_username": LEFT_OUT}
    provider.user_info = {"sub": "1", "preferred_username": "ada"}
    assert there_and_back(browse(of_openid.staff.server), provider).status == 200
    provider.user_info = {"sub": "2", "preferred_username": "ada"}  # somebody else's
    assert there_and_back(browse(of_openid.staff.server), provider).status == 403
    provider.user_info = {"sub": "1", "name": "Ada"}
    answer = there_and_back(browse(of_openid.staff.server), provider)
    assert answer.status == 403 and "does not say your preferred_username" in answer.text


def test_a_provider_without_the_claim_anywhere_is_named_as_the_cause(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    provider.lies = {"preferred_username": LEFT_OUT}
    answer = there_and_back(browse(of_openid.staff.server), provider)
    assert answer.status == 403 and "Tell the course&#39;s staff" in answer.text


@pytest.mark.parametrize(
    "methods", [["client_secret_post"], ["client_secret_post", "client_secret_basic"]]
)
def test_the_secret_is_said_as_the_provider_reads_it(
    methods: list[str], of_openid: Any, provider: Provider, browse: Any
) -> None:
    provider.metadata = {"token_endpoint_auth_methods_supported": methods}
    assert there_and_back(browse(of_openid.staff.server), provider).status == 200


def signed(values: object, key: str, **claims: object) -> str:
    claims = {"values": values, "aud": "course_signin", "exp": int(time.time()) + 60, **claims}
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(key))


def test_a_cookie_that_is_none_of_ours_is_refused(
    course: Any, provider: Provider, browse: Any
) -> None:
    """Its owner cannot have written it, nor kept it; else any answer would belong to it."""
    browser, key = browse(course.staff.server), course.server.course.store.cookie_key
    asked = {"state": "s", "nonce": "n", "verifier": "v", "next": "/"}
    code = urlsplit(
        provider.authorize(
            {
                "client_id": "course",
                "response_type": "code",
                "redirect_uri": f"{course.staff.server}/signin/return",
                "state": "s",
                "nonce": "n",
                "code_challenge": base64.urlsafe_b64encode(hashlib.sha256(b"v").digest())
                .rstrip(b"=")
                .decode(),
            }
        )
    ).query
    plain = base64.urlsafe_b64encode(json.dumps(asked).encode()).decode()
    head, body, _ = signed(asked, key).split(".")
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    for cookie in (
        plain,
        signed(asked, "another key, of another course"),
        signed(asked, key, aud="course_lti"),
        signed(asked, key, exp=int(time.time()) - 1),
        f"{head}.{body}.",
        f"{unsigned}.{body}.",
        "",
        "[" * 5_000,
    ):
        browser.cookie = f"course_signin={cookie}"
        assert browser.get(f"/signin/return?{code}").status == 403
    browser.cookie = f"course_signin={signed(asked, key)}"
    assert browser.get(f"/signin/return?{code}").status == 200


def test_a_sign_in_takes_ten_minutes_at_most(start: Any, provider: Provider, browse: Any) -> None:
    with start(openid_issuer=provider.url, code_s=-1.0, **CLIENT) as running:
        running.server.course.store.roster.add("ada", "learner")
        assert there_and_back(browse(running.staff.server), provider).status == 403


def test_sign_ins_that_fail_are_counted_and_good_ones_go_on(
    start: Any, provider: Provider, browse: Any
) -> None:
    with start(openid_issuer=provider.url, wrong_logins=3, **CLIENT) as running:
        running.server.course.store.roster.add("ada", "learner")
        browser = browse(running.staff.server)
        answers = [browser.get("/signin/return?code=c&state=s").status for _ in range(5)]
        assert answers == [403, 403, 403, 429, 429]
        assert there_and_back(browser, provider).status == 200


def test_an_answer_that_this_browser_did_not_ask_for_is_refused(
    course: Any, provider: Provider, browse: Any
) -> None:
    """Else somebody could log a visitor in as themselves by a link."""
    mine, other = browse(course.staff.server), browse(course.staff.server)
    away = mine.ask("GET", "/signin")
    query = parse_qs(urlsplit(away.getheader("Location")).query)
    back = urlsplit(provider.authorize({name: values[0] for name, values in query.items()}))
    assert other.ask("GET", f"{back.path}?{back.query}").status == 403
    other.ask("GET", "/signin")
    assert other.ask("GET", f"{back.path}?{back.query}").status == 403
    assert mine.ask("GET", f"{back.path}?{back.query}").status == 200
    assert mine.ask("GET", f"{back.path}?{back.query}").status == 403  # a code works once


@pytest.mark.parametrize(
    "lies",
    [
        {"aud": "another"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"nonce": "another"},
        {"azp": "another"},
        {"preferred_username": None},
    ],
)
def test_an_id_token_for_something_else_is_refused(
    of_openid: Any, provider: Provider, browse: Any, lies: dict[str, Any]
) -> None:
    provider.lies = lies
    assert there_and_back(browse(of_openid.staff.server), provider).status == 403


def test_an_id_token_that_another_signed_is_refused(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    provider.key = foreign_key()
    assert there_and_back(browse(of_openid.staff.server), provider).status == 403


def test_no_sign_in_leads_to_another_site(of_openid: Any, provider: Provider, browse: Any) -> None:
    answer = there_and_back(browse(of_openid.staff.server), provider, "https://evil.example/")
    assert answer.status == 200 and "evil" not in answer.text


def test_a_provider_that_is_away_is_said_so(start: Any, browse: Any, provider: Provider) -> None:
    with start(openid_issuer=f"{provider.url}/nowhere", **CLIENT) as running:
        answer = browse(running.staff.server).get("/signin")
        assert answer.status == 502 and "does not answer" in answer.text
