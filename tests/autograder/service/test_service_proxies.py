"""What a client says where something stands between it and the course server, as nginx does."""

import datetime
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from autograder.service.client import Connection
from autograder.service.errors import ServerError
from tests.test_when_it_does_not_work import PAGE, PLACE, places

NOTEBOOK = b'{"cells": []}'


@contextmanager
def answering(status: int, certificate: Path | None = None, **headers: str) -> Iterator[str]:
    """Answer every request as a proxy does on its own: a status and a page of HTML."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html><center>nginx</center></html>")

        do_POST = do_GET

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if certificate:
            context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"{scheme}://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def submit_to(url: str) -> ServerError:
    """Return the error with which handing a notebook in ends there."""
    with pytest.raises(ServerError) as caught:
        Connection(url, "t").submit("01_first", NOTEBOOK)
    return caught.value


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (413, "takes nothing as large: .* client_max_body_size"),
        (502, "answered 502 Bad Gateway: a proxy is there, .* Try again in a minute"),
        (503, "answered 503 Service Unavailable: a proxy is there"),
        (504, "answered 504 Gateway Timeout: a proxy is there"),
        (418, "answered 418 .*Check the address"),
    ],
)
def test_a_proxys_own_answer_is_explained(status: int, said: str) -> None:
    with answering(status) as url:
        error = submit_to(url)
    assert error.status == status
    assert error.args[0].startswith("submit: ") and "<" not in error.args[0]
    with pytest.raises(ServerError, match=said):
        raise error


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("https://course.example/api/submissions", "leads on to https://course.example, "),
        ("https://course.example/ml/api/submissions", "leads on to https://course.example/ml, "),
        ("https://login.example/?next=/api/submissions", "leads on to https://login.example, "),
    ],
)
def test_a_token_is_not_carried_on_and_the_new_address_is_named(
    status: int, place: str, named: str
) -> None:
    with answering(status, Location=place) as url:
        error = submit_to(url)
    assert named in str(error) and error.status == status


def make_certificate(path: Path) -> Path:
    """Write a key and a certificate that nobody signed but itself, of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(pem, form, plain) + certificate.public_bytes(pem))
    return path


def test_a_certificate_that_nobody_trusts_is_named(tmp_path: Path) -> None:
    with answering(200, make_certificate(tmp_path / "server.pem")) as url:
        message = str(submit_to(url))
    assert f"the certificate of {url} is not trusted: self-signed certificate" in message
    assert "SSL_CERT_FILE" in message
    assert set(PLACE.findall(message)) <= places(PAGE.read_text())
