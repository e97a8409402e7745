"""The client: what the command line and the notebook ask of a course server. Standard library.

Where the server is and who asks come from the environment when nobody says (`Connection.choose`):
AUTOGRADER_SERVER, and AUTOGRADER_TOKEN or a file named by AUTOGRADER_TOKEN_FILE.
"""

import json
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

from autograder.service.client_errors import describe_answer, describe_failure
from autograder.service.errors import ServerError

DEFAULT_SERVER = "http://127.0.0.1:8000"

_TIMEOUT_S = 60.0  # an upload over a slow line; a server that is down answers at once
_ANSWER_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Connection:
    """A server and a token: who asks whom. `operation` begins what is said of errors."""

    server: str
    token: str
    operation: str = ""

    @classmethod
    def choose(
        cls, server: str | None, token: str | None, environment: Mapping[str, str] = os.environ
    ) -> "Connection":
        """Return the connection that was named, or else the environment's.

        Raises:
            ServerError: there is no token, or the address is not one.
        """
        server = server or environment.get("AUTOGRADER_SERVER") or DEFAULT_SERVER
        if not _is_address(server):
            raise ServerError(f"server: got {server!r}, expected http://HOST:PORT.")
        token = token or environment.get("AUTOGRADER_TOKEN") or _token_file(environment)
        if not token:
            raise ServerError("server: no token. Set AUTOGRADER_TOKEN to yours, or say --token.")
        if not (token.isascii() and token.isprintable()):
            raise ServerError("server: the token is not one: expected letters, digits and dots.")
        return cls(server.rstrip("/"), token)

    def submit(self, lab: str, notebook: bytes, filename: str = "lab.ipynb") -> dict[str, Any]:
        """Return the server's receipt: `id`, `lab`, `state`, `sha256`, `submitted_at`, `url`, ...

        `checks` says how many run in the notebook (`here`), and how many more `at_submission`.
        Where the answer is lost on its way, it is asked for once more, under the same key.
        """
        boundary = secrets.token_hex(16)
        body = _multipart(boundary, lab, filename, notebook)
        kind = f"multipart/form-data; boundary={boundary}"
        key = secrets.token_hex(16)
        try:
            return self._json("submit", "/api/submissions", body, kind, key=key)
        except ServerError as error:
            if not isinstance(error.__cause__, (ConnectionError, HTTPException)):
                raise
            return self._json("submit", "/api/submissions", body, kind, key=key)

    def submission(self, number: str) -> dict[str, Any]:
        """Return what the server says of a submission: `id`, `state`, `score`, `max_score`, ..."""
        if not (number.isascii() and number.isdigit()):
            raise ServerError(f"status: got {number!r}, expected the number of a submission.")
        return self._json("status", _path("submissions", number))

    def labs(self) -> list[dict[str, Any]]:
        """Return the labs, each with the dates that hold for this learner and `attempts_left`."""
        labs: list[dict[str, Any]] = self.get("labs")["labs"]
        return labs

    def solution(self, lab: str, question: str) -> str:
        """Return the solution of a question, where staff give it out."""
        path = _path("labs", lab, "solutions", question)
        return str(self._json("solution", path)["solution"])

    def get(self, *names: str, **query: object) -> dict[str, Any]:
        """Return what is at `/api/NAME/...`; what of the query is empty is not asked for."""
        return self._json(self._operation(names), _path(*names, **query))

    def text(self, *names: str, **query: object) -> str:
        """Return what is at an address as text: a CSV, a calendar."""
        with self._send_request(self._operation(names), _path(*names, **query)) as answer:
            return answer.read(_ANSWER_BYTES).decode()

    def send(self, method: str, *names: str, body: Any, **query: object) -> dict[str, Any]:
        """Return what is answered to a body: bytes are a CSV, all else becomes JSON."""
        kind, data = "text/csv", body
        if not isinstance(body, bytes):
            kind, data = "application/json", json.dumps(body).encode()
        path = _path(*names, **query)
        return self._json(self._operation(names), path, data, kind, method=method)

    def do(self, method: str, *names: str) -> None:
        """Ask for what is done without an answer."""
        with self._send_request(self._operation(names), _path(*names), method=method):
            pass

    def _operation(self, names: Sequence[str]) -> str:
        return self.operation or names[0]

    def enroll(self, name: str, *, renew: bool = False) -> dict[str, Any]:
        """Return `name` and the `token` of the learner newly enrolled."""
        return self.send("POST", "learners", body={"name": name, "renew": renew})

    def roster(self, data: bytes | None, *, dry_run: bool = False) -> dict[str, Any]:
        """Return what a roster has changed, or would: a CSV, or None for the platform's people."""
        if data is None:
            return self.send("POST", "lti", "roster", body=b"", dry_run=dry_run)
        return self.send("PUT", "roster", body=data, dry_run=dry_run)

    def announcements(self, *, unread: bool = False) -> list[dict[str, Any]]:
        """Return what staff announced: `id`, `text`, `starts`, `unread`, ...; the newest first."""
        shown: list[dict[str, Any]] = self.get("announcements", unread=unread)["announcements"]
        return shown

    def mark_read(self, number: int) -> None:
        """Mark an announcement as read."""
        self.do("POST", "announcements", str(number), "read")

    def requests(self, *, lab: str = "", answered: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the re-grade requests that wait for staff, or were answered, the oldest first."""
        after = 0
        while True:
            some = self.get("requests", answered=answered, lab=lab, after=after)["requests"]
            yield from some
            if not some:
                return
            after = some[-1]["id"]

    def export_to(
        self, format: str, file: BinaryIO, *, lab: str = "", template: bytes | None = None
    ) -> None:
        """Write the gradebook to `file`, as it comes; into a platform's own file, its `template`.

        Raises:
            ServerError: also where it ends too early; part of it has been written.
        """
        with self._send_request(
            "export", _path("export", format=format, lab=lab), template
        ) as answer:
            while piece := answer.read(_PIECE_BYTES):
                try:
                    file.write(piece)
                except OSError as error:
                    raise ServerError(f"export: cannot be written: {error.strerror}.") from error

    def page(self, path: str) -> str:
        """Return an address that logs its browser in, once and soon, then shows `path`."""
        answer = self.send("POST", "login-codes", body=b"")
        return f"{self.server}/enter?{urlencode({'code': answer['code'], 'next': path})}"

    def _json(
        self, what: str, path: str, body: bytes | None = None, kind: str = "", **how: Any
    ) -> dict[str, Any]:
        with self._send_request(what, path, body, kind, **how) as answer:
            text = answer.read(_ANSWER_BYTES)
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._no_course_server(what)
        return content

    def _no_course_server(self, what: str) -> ServerError:
        problem = f"{what}: {self.server} does not answer like a course server"
        return ServerError(f"{problem}. Check the address.")

    @contextmanager
    def _send_request(
        self,
        what: str,
        path: str,
        body: bytes | None = None,
        kind: str = "",
        key: str = "",
        method: str | None = None,
    ) -> Iterator[HTTPResponse]:
        """Give the answer; what goes wrong while it is read is a `ServerError` too."""
        if "" in urlsplit(path).path.split("/")[1:]:
            raise ServerError(f"{what}: got an empty name, expected one of at least a character.")
        headers = {"Authorization": f"Bearer {self.token}"}
        headers |= {"Content-Type": kind} if kind else {}
        headers |= {"Idempotency-Key": key} if key else {}
        request = urllib.request.Request(self.server + path, body, headers, method=method)
        try:
            # A proxy of the environment has no business with a token for this one server.
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
            with opener.open(request, timeout=_TIMEOUT_S) as answer:
                if answer.headers.get_content_type() == "text/html":  # nothing of ours is a page
                    raise self._no_course_server(what)
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                problem = describe_answer(what, self.server, error, len(body or b""))
                raise ServerError(problem, status=error.code) from error
        except (OSError, HTTPException, ValueError) as error:
            problem = describe_failure(what, self.server, error, len(body or b""))
            raise ServerError(problem) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token is not carried to wherever an answer points."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _path(*names: str, **query: object) -> str:
    """Return an address of the interface; what is empty is not asked for, and True is 1."""
    asked = {
        name: int(value) if isinstance(value, bool) else value for name, value in query.items()
    }
    fields = urlencode({name: value for name, value in asked.items() if value != ""})
    path = "/".join(("/api", *(quote(name, safe="") for name in names)))
    return f"{path}?{fields}" if fields else path


def _is_address(server: str) -> bool:
    """Return whether paths can be put behind this text, and no user or query is in it."""
    try:
        parts = urlsplit(server)
        port = parts.port  # raises where it is no number up to 65535
    except ValueError:
        return False
    more = parts.query or parts.fragment or parts.username or parts.password
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and not more


def _token_file(environment: Mapping[str, str]) -> str:
    path = environment.get("AUTOGRADER_TOKEN_FILE")
    if not path:
        return ""
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ServerError(f"server: the token's file cannot be read: {path}: {error}.") from error


def _multipart(boundary: str, lab: str, filename: str, notebook: bytes) -> bytes:
    safe = quote(filename, safe=" ")
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="lab"\r\n\r\n{lab}\r\n'
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="notebook"; filename="{safe}"\r\n'
        "Content-Type: application/x-ipynb+json\r\n\r\n"
    )
    return head.encode() + notebook + f"\r\n--{boundary}--\r\n".encode()
