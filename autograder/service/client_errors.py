"""What the client says where no course server answered: a proxy did, or nothing at all.

Standard library, as the client.
"""

import json
import os
import re
import ssl
import urllib.error
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

_ANSWER_BYTES = 1 << 20
_ADDRESS_CHARS = 200
_LARGE_BYTES = 1 << 20  # nginx takes no more unless told
_HUNG_UP = (BrokenPipeError, ConnectionResetError, ConnectionAbortedError, ssl.SSLEOFError)
_NAMES_OPERATION = re.compile(r"[\w.-]+( [\w.-]+)?: ")  # as a message begins: "submit: ..."
_UNREACHED = "Help: when_it_does_not_work.html#the-server-cannot-be-reached"
_PROXY = "Help: when_it_does_not_work.html#a-proxy-before-the-server"
_STAFF = "tell whoever runs the course"

# X.509 errors of OpenSSL that no trust mends: not valid yet, expired; another host, another IP.
_OF_TIME = (9, 10)
_OF_NAME = (62, 64)


def describe_answer(
    what: str, server: str, error: urllib.error.HTTPError, sent_bytes: int = 0
) -> str:
    """Return the server's own message, or one that says what answered in its place.

    Args:
        what: the operation that failed.
        server: the address that was asked, without the path.
        error: the answer; its body is read.
        sent_bytes: the size of the request's body.
    """
    text = _read(error)
    try:
        detail = json.loads(text)["detail"]
        if isinstance(detail, str):
            return detail if _NAMES_OPERATION.match(detail) else f"{what}: {detail}"
    except (ValueError, KeyError, TypeError):
        pass
    answered = f"{server}: {error.code} {error.reason}"
    if error.headers.get("Location"):
        return f"{what}: {_describe_redirect(server, error)} {_PROXY}"
    if error.code == 413:
        problem = f"a proxy before the course server takes no {sent_bytes} bytes: {answered}"
        step = f"Send less (clear the notebook's outputs), or {_STAFF}"
        return f"{what}: {problem}. {step}: nginx needs `client_max_body_size 17m`. {_PROXY}"
    if error.code in (502, 503):
        problem = f"a proxy answers, and the course server behind it does not: {answered}"
        return f"{what}: {problem}. Try again in a minute; if that stays, {_STAFF}. {_PROXY}"
    if error.code == 504:
        problem = f"the course server behind a proxy took too long: {answered}"
        step = "What was sent may have arrived: look before you send it again"
        return f"{what}: {problem}. {step}; if that stays, {_STAFF}. {_PROXY}"
    if error.code == 400 and b"HTTPS port" in text:  # nginx's words
        return f"{what}: {server} is an address of https. Begin it with https://. {_PROXY}"
    return f"{what}: the server answered {error.code} {error.reason}. Check the address."


def describe_failure(what: str, server: str, error: Exception, sent_bytes: int = 0) -> str:
    """Return why there is no answer, and what to do; `sent_bytes` is as in `describe_answer`."""
    reason: Any = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"{what}: {_describe_certificate(server, reason)} {_PROXY}"
    if isinstance(reason, ssl.SSLError) and reason.reason in _NO_TLS:
        step = "Begin the address with http://, if nobody between can read the token"
        return f"{what}: {server} does not speak https. {step}. {_PROXY}"
    if sent_bytes > _LARGE_BYTES and isinstance(reason, _HUNG_UP):
        problem = f"{server} hung up while it was sent {sent_bytes} bytes"
        step = "A notebook may have 16 MiB: clear its outputs, or try again"
        return f"{what}: {problem}. {step}. {_PROXY}"
    cause = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return (
        f"{what}: the course server cannot be reached: {server}: {cause}. "
        f"Is it running? `autograder serve` or `make start` starts one. {_UNREACHED}"
    )


# What OpenSSL makes of an answer in plain HTTP: 3.0 and before, then 3.2 and later.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")


def _describe_redirect(server: str, error: urllib.error.HTTPError) -> str:
    """Say where an answer leads; a token goes there only when its owner says so."""
    asked = error.url or server
    target = urljoin(asked, error.headers["Location"])
    shown = "".join(c if c.isprintable() else "?" for c in target)[:_ADDRESS_CHARS]
    problem = f"{server} sends us on ({error.code}) to {shown}, where no token was sent"
    path = asked.removeprefix(server)
    if urlsplit(server).scheme == "https" and urlsplit(target).scheme != "https":
        return f"{problem}: anybody between could read it there. Do not follow; {_STAFF}."
    if target.endswith(path):
        address = shown.removesuffix(path)
        return f"{problem}. If that is your course, say `--server {address}`, or AUTOGRADER_SERVER."
    return f"{problem}. Ask whoever runs the course for the server's address."


def _describe_certificate(server: str, reason: ssl.SSLCertVerificationError) -> str:
    """Say why a certificate is not taken, and what mends it."""
    problem = f"the certificate of {server} is not trusted: {reason.verify_message}"
    if reason.verify_code in _OF_NAME:
        return f"{problem} Use the address that it is for, or {_STAFF}."
    if reason.verify_code in _OF_TIME:
        return f"{problem}. Is this machine's clock right? If it is, {_STAFF}."
    named = os.environ.get("SSL_CERT_FILE")
    if named and not Path(named).is_file():
        return f"{problem}. SSL_CERT_FILE names no file: {named}. Correct it."
    step = "Get the certificate that signed it from whoever runs the course, and name its file"
    return f"{problem}. {step}: `export SSL_CERT_FILE=FILE.pem`."


def _read(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_ANSWER_BYTES)
    except (OSError, HTTPException, ValueError):
        return b""
