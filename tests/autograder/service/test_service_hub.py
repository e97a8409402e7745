"""Signing in at a real JupyterHub, where it and its proxy are installed: `WIDE=1`."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

PROGRAMS = ("jupyterhub", "configurable-http-proxy")

pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)),
        reason="no JupyterHub: pip install jupyterhub, npm install -g configurable-http-proxy",
    ),
]

CONFIG = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "sesame"
c.Authenticator.allow_all = True
c.JupyterHub.services = [{{
    "name": "course",
    "api_token": "{secret}",
    "oauth_client_id": "service-course",
    "oauth_redirect_uri": "{url}/signin/return",
    "oauth_no_confirm": True,
}}]
c.JupyterHub.load_roles = [
    {{"name": "user", "scopes": ["self", "access:services!service=course"]}}
]
"""
SECRET = "0123456789abcdef" * 4


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


@pytest.fixture
def hub(start: Any, tmp_path: Path) -> Iterator[Any]:
    """A course that signs in at a hub, and that hub's address."""
    port, hub_port, proxy_port = free_ports(3)
    address = f"http://127.0.0.1:{port}"
    with start(jupyterhub=address, client_id="service-course", client_secret=SECRET) as course:
        numbers = {"port": port, "hub_port": hub_port, "proxy_port": proxy_port}
        text = CONFIG.format(**numbers, secret=SECRET, url=course.staff.server)
        (tmp_path / "jupyterhub_config.py").write_text(text)
        log = tmp_path / "hub.log"
        with log.open("w") as written:
            running = subprocess.Popen(["jupyterhub"], cwd=tmp_path, stdout=written, stderr=written)
        try:
            while "JupyterHub is now running" not in (text := log.read_text()):
                assert running.poll() is None, text
            yield course, address
        finally:
            running.terminate()
            running.wait(60)


def test_whoever_logs_in_at_the_hub_is_logged_in(hub: Any) -> None:
    course, address = hub
    course.server.course.store.roster.add("ada", "learner")
    with requests.Session() as browser:
        form = browser.get(f"{course.staff.server}/signin?next=/labs", timeout=60)
        assert form.url.startswith(f"{address}/hub/login"), form.url
        fields = {"username": "ada", "password": "sesame", "_xsrf": browser.cookies["_xsrf"]}
        arrived = browser.post(form.url, data=fields, timeout=60)
        assert (arrived.status_code, "You are logged in" in arrived.text) == (200, True)
        assert "ada" in browser.get(f"{course.staff.server}/labs", timeout=60).text


def test_whoever_is_not_on_the_roster_is_told_so(hub: Any) -> None:
    course, _ = hub
    with requests.Session() as browser:
        form = browser.get(f"{course.staff.server}/signin?next=/labs", timeout=60)
        fields = {"username": "eve", "password": "sesame", "_xsrf": browser.cookies["_xsrf"]}
        arrived = browser.post(form.url, data=fields, timeout=60)
        assert arrived.status_code == 403 and "not on the roster" in arrived.text
