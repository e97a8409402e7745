"""The client and what stands before a course server: proxies, certificates, redirects."""

import contextlib
import datetime
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from autograder.service.client import Connection
from autograder.service.errors import ServerError

# As nginx words it; one page of it for each status.
PAGE = "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
PAGE += "<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
HELP = "Help: when_it_does_not_work.html#a-proxy-before-the-server"


class Proxy(ThreadingHTTPServer):
    """Answers everything alike: with a status, a page, and perhaps the way to elsewhere."""

    def __init__(self, status: int = 502, *, page: str = "", location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.page, self.location = status, page or PAGE.format(status), location
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a client that went away when it saw the certificate."""


class Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(self.server.status)
        self.send_header("Content-Type", "text/html")
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.page)))
        self.end_headers()
        self.wfile.write(self.server.page.encode())

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def answering(proxy: Proxy) -> Iterator[Proxy]:
    with proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


def complaint(server: str, size: int = 10) -> str:
    """Return what a learner is told who hands in `size` bytes: one line, and no page."""
    with pytest.raises(ServerError) as error:
        Connection(server, "token").submit("lab", b"x" * size)
    said = str(error.value)
    assert said.startswith("submit: ") and said.endswith(HELP)
    assert "\n" not in said and "<" not in said
    return said


@pytest.mark.parametrize(
    ("status", "reason", "step"),
    [
        (413, "takes no 3", "`client_max_body_size 17m`"),
        (502, "behind it does not", "Try again in a minute"),
        (503, "behind it does not", "Try again in a minute"),
        (504, "took too long", "look before you send it again"),
    ],
)
def test_what_a_proxy_answers_by_itself_is_said_with_what_to_do(
    status: int, reason: str, step: str
) -> None:
    with answering(Proxy(status)) as proxy:
        said = complaint(proxy.url, 3_000)
        assert len(proxy.asked) == 1  # it is no lost answer, which is asked for again
    assert reason in said and step in said and str(status) in said


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_names_the_address_to_use_and_is_not_followed(status: int) -> None:
    """A POST would become a GET, and a token go to whoever is named."""
    with answering(Proxy(200)) as target:
        elsewhere = f"http://localhost:{target.server_port}"
        with answering(Proxy(status, location=f"{elsewhere}/api/submissions")) as proxy:
            assert f"say `--server {elsewhere}`" in complaint(proxy.url)
            assert proxy.asked == ["POST /api/submissions"]
        with answering(Proxy(status, location=f"{elsewhere}/login?\x1bback=x")) as proxy:
            said = complaint(proxy.url)
            assert f"{elsewhere}/login" in said and said.isprintable()
            assert "--server" not in said and "Ask whoever runs the course" in said
        assert target.asked == []


def certificate(folder: Path, *, days: int = 1) -> tuple[Path, Path]:
    """Return the files of a certificate for `localhost`, signed by itself, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    until = now + datetime.timedelta(days)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(min(now, until) - datetime.timedelta(1))
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem, key_pem = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return pem, key_pem


@contextmanager
def answering_in_tls(folder: Path, proxy: Proxy, *, days: int = 1) -> Iterator[int]:
    """Give the port of a proxy, behind a certificate for `localhost` that lasts some days."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder, days=days))
    proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
    with answering(proxy):
        yield proxy.server_port


def complaint_of_one_who_trusts(file: Path, server: str) -> str:
    """Return what the command says where `SSL_CERT_FILE` names this file."""
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "standing", "--server", server, "--token", "t"],
        env={**os.environ, "SSL_CERT_FILE": str(file)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_certificate_that_nobody_trusts_names_the_way_to_trust_it(tmp_path: Path) -> None:
    with answering_in_tls(tmp_path, Proxy(502)) as port:
        said = complaint(f"https://localhost:{port}")
        assert "not trusted: self-signed certificate" in said
        assert "`export SSL_CERT_FILE=FILE.pem`" in said
        trusted = complaint_of_one_who_trusts(tmp_path / "cert.pem", f"https://localhost:{port}")
        assert "502" in trusted and "trusted" not in trusted
        other = complaint_of_one_who_trusts(tmp_path / "cert.pem", f"https://127.0.0.1:{port}")
        assert "not valid for '127.0.0.1'" in other and "SSL_CERT_FILE" not in other


def test_a_certificate_that_has_expired_is_not_to_be_trusted(tmp_path: Path) -> None:
    with answering_in_tls(tmp_path, Proxy(502), days=-1) as port:
        said = complaint_of_one_who_trusts(tmp_path / "cert.pem", f"https://localhost:{port}")
    assert "certificate has expired" in said and "SSL_CERT_FILE" not in said


def test_http_and_https_that_were_taken_for_each_other_are_named() -> None:
    with answering(Proxy(400, page="The plain HTTP request was sent to HTTPS port")) as proxy:
        assert "Begin it with https://" in complaint(proxy.url)
        assert "does not speak https" in complaint(proxy.url.replace("http:", "https:"))


def test_a_redirect_out_of_https_is_not_recommended(tmp_path: Path) -> None:
    proxy = Proxy(308, location="http://localhost/api/standing")
    with answering_in_tls(tmp_path, proxy) as port:
        said = complaint_of_one_who_trusts(tmp_path / "cert.pem", f"https://localhost:{port}")
    assert "Do not follow" in said and "--server" not in said


def test_a_server_that_hangs_up_on_a_large_notebook_is_not_called_away() -> None:
    """Ours answers 413 and closes; who is still sending then reads a reset and no answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with contextlib.suppress(OSError):  # the listener has ended
                while True:
                    with listener.accept()[0] as peer:
                        peer.recv(1)
                        reset = struct.pack("ii", 1, 0)
                        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        said = complaint(f"http://127.0.0.1:{listener.getsockname()[1]}", 20 << 20)
        listener.shutdown(socket.SHUT_RDWR)  # which wakes `accept`
        thread.join()
    assert "hung up" in said and "16 MiB: clear its outputs" in said


def test_a_trusted_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with answering_in_tls(tmp_path, Proxy(502)) as port:
        said = complaint_of_one_who_trusts(tmp_path / "none.pem", f"https://localhost:{port}")
    assert f"SSL_CERT_FILE names no file: {tmp_path / 'none.pem'}" in said


@pytest.mark.parametrize(
    "server",
    [
        "http://[::1",
        "http://a:99999",
        "http://a:x",
        "http://:80",
        "http://a/?b=1",
        "http://u:p@a",
        "a:8000",
    ],
)
def test_what_is_no_address_of_a_server_is_refused(server: str) -> None:
    with pytest.raises(ServerError, match="expected http://HOST:PORT"):
        Connection.choose(server, "token", {})
    assert Connection.choose("http://[::1]:80/courses/b/", "t", {}).server.endswith("/b")
