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

CLIENT = {"client_id": "course", "client_secret": "sesame"}


class Provider(ThreadingHTTPServer):
    """OpenID Connect and the hub's OAuth, as their documents say; `lies` changes the ID token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: dict[str, dict[str, str]] = {}
        self.login, self.key, self.lies = "ada", signing_key(), dict[str, Any]()
        self.metadata = dict[str, Any]()  # what is said beside the endpoints
        self.user_info: dict[str, Any] | None = None  # where this has a claim, no ID token has it

    def authorize(self, query: dict[str, str]) -> str:
        """Return where a browser is led back to; the user says yes."""
        assert query["client_id"] == "course" and query["response_type"] == "code"
        code = secrets.token_hex(8)
        self.asked[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Return a token for a code, if our secret came in the one way that is taken."""
        asked = self.asked.pop(form["code"], None)
        expected = base64.b64encode(b"course:sesame").decode()
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        if self.metadata.get("token_endpoint_auth_methods_supported") == ["client_secret_post"]:
            proved = not authorization and form.get("client_secret") == "sesame"
        else:
            proved = authorization == f"Basic {expected}" and "client_secret" not in form
        if asked is None or not proved:
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
        if self.user_info is not None:
            del claims["preferred_username"]
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        return {"access_token": "of-the-user", "token_type": "Bearer", "id_token": signed}


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        provider, path = self.server, urlsplit(self.path).path
        if path == "/.well-known/openid-configuration":
            names = ("authorization", "token")
            found = {f"{name}_endpoint": f"{provider.url}/{name}" for name in names}
            if provider.user_info is not None:
                found["userinfo_endpoint"] = f"{provider.url}/me"
            ours = {"issuer": provider.url, "jwks_uri": f"{provider.url}/keys"}
            self.say({**found, **ours, **provider.metadata})
        elif path == "/me" and provider.user_info is not None:
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
        if self.path.startswith("/hub/"):  # which reads no header, as the real one
            pair = f"{form.get('client_id')}:{form.get('client_secret')}"
            stated = f"Basic {base64.b64encode(pair.encode()).decode()}"
            form.pop("client_secret", None)
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


def test_a_login_that_only_the_userinfo_endpoint_has_is_asked_for_there(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    provider.user_info = {"sub": "1", "preferred_username": "ada"}
    answer = there_and_back(browse(of_openid.staff.server), provider)
    assert answer.status == 200 and "course_session=" in str(answer.getheaders())


@pytest.mark.parametrize("about", [{"sub": "2"}, {"sub": None}, {}])
def test_what_the_userinfo_endpoint_says_of_somebody_else_is_refused(
    of_openid: Any, provider: Provider, browse: Any, about: dict[str, Any]
) -> None:
    """OpenID Connect Core, 5.3.2: else one user's access token would be another's login."""
    provider.user_info = {"preferred_username": "ada", **about}
    answer = there_and_back(browse(of_openid.staff.server), provider)
    assert answer.status == 403 and "course_session" not in str(answer.getheaders())


def test_an_email_of_the_userinfo_endpoint_counts_only_if_it_is_verified_there(
    start: Any, provider: Provider, browse: Any
) -> None:
    email = "ada@example.org"
    provider.user_info = {"sub": "1", "email": email}
    with start(openid_issuer=provider.url, openid_claim="email", **CLIENT) as running:
        running.server.course.store.roster.add(email, "learner")
        browser = browse(running.staff.server)
        assert there_and_back(browser, provider).status == 403
        provider.user_info["email_verified"] = True
        assert there_and_back(browser, provider).status == 200


@pytest.mark.parametrize("user_info", [None, {"sub": "1"}, {"sub": "1", "uid": None}])
def test_a_login_that_the_provider_gives_nowhere_is_missed_by_its_name(
    start: Any, provider: Provider, browse: Any, user_info: dict[str, Any] | None
) -> None:
    provider.user_info = user_info
    with start(openid_issuer=provider.url, openid_claim="uid", **CLIENT) as running:
        answer = there_and_back(browse(running.staff.server), provider)
        assert answer.status == 403
        assert "gave no &#39;uid&#39;" in answer.text and "--openid-claim" in answer.text


METHODS = "token_endpoint_auth_methods_supported"


@pytest.mark.parametrize("methods", [["client_secret_post"], ["none", "client_secret_basic"], None])
def test_the_secret_is_said_in_a_way_that_the_provider_takes(
    of_openid: Any, provider: Provider, browse: Any, methods: list[str] | None
) -> None:
    provider.metadata = {METHODS: methods}
    assert there_and_back(browse(of_openid.staff.server), provider).status == 200


def test_a_provider_that_takes_no_secret_is_named_as_that(
    of_openid: Any, provider: Provider, browse: Any
) -> None:
    provider.metadata = {METHODS: ["private_key_jwt"]}
    answer = there_and_back(browse(of_openid.staff.server), provider)
    assert answer.status == 502 and "private_key_jwt" in answer.text


def test_no_sign_in_leads_to_another_site(of_openid: Any, provider: Provider, browse: Any) -> None:
    answer = there_and_back(browse(of_openid.staff.server), provider, "https://evil.example/")
    assert answer.status == 200 and "evil" not in answer.text


def test_a_provider_that_is_away_is_said_so(start: Any, browse: Any, provider: Provider) -> None:
    with start(openid_issuer=f"{provider.url}/nowhere", **CLIENT) as running:
        answer = browse(running.staff.server).get("/signin")
        assert answer.status == 502 and "does not answer" in answer.text
