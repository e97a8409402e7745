"""The command `start`: one learner on their own machine, JupyterLab and a course server together.

The labs are handed out into a working folder, beside the page that says the way through them, where
JupyterLab opens; the learner is enrolled, and the notebooks know the server's address and the
learner's token, so that `q.submit()` just works. Whatever ends us, ends both.
"""

import contextlib
import getpass
import json
import os
import random
import shutil
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.service.errors import DataInUse, Refused, StartError
from autograder.service.grading.catalog import LabCatalog
from autograder.service.records.roster.enrolment import enroll
from autograder.service.running.data_directory import data_directory, write_secret
from autograder.service.running.handout import PAGE, hand_out
from autograder.service.running.jupyter import Jupyter, serves, start_jupyter
from autograder.service.running.server import Server, listen, open_server
from autograder.service.settings import DEFAULT_PORT, LOOPBACK, Settings
from autograder.service.web.logs import log_to_stderr

LEARNER_TOKEN = "learner.token"
RUNNING = "start.json"  # what a second start says: the addresses of the first
LAB_PORT = 8888

# How many ports beyond the usual one are tried where nobody asked for a certain one.
_NEAR = 50
# Ports that the kernel gives nobody of its own accord: one that is free stays so until it is used.
_QUIET = range(10_000, 32_768)
_LOOK_AGAIN_S = 0.2


@dataclass(frozen=True)
class StartSettings:
    """What `start` was asked for; None leaves it the choice."""

    labs: Path
    work: Path
    data: Path
    port: int | None = None
    lab_port: int | None = None
    name: str | None = None
    browser: bool = True


def start(asked: StartSettings) -> int:
    """Run JupyterLab and the course server until SIGINT, SIGTERM, or one of them ends."""
    log_to_stderr()
    catalog = LabCatalog(asked.labs)
    catalog.require()
    data = data_directory(asked.data)
    work = data_directory(asked.work)
    for problem in hand_out([catalog.path(name) for name in catalog.names], work):
        print(problem, file=sys.stderr)
    settings = Settings(
        data=data,
        labs=catalog.directory,
        port=free_port(asked.port, DEFAULT_PORT),
        unsandboxed=not shutil.which("bwrap"),  # it is the learner's own code on their machine
    )
    if settings.unsandboxed:
        print(
            "No sandbox: grading is unsandboxed. sudo apt-get install bubblewrap mends that. "
            "Help: when_it_does_not_work.html#no-sandbox"
        )
    try:
        watch = _run(settings, asked)
    except DataInUse:
        if show_running(data, browser=asked.browser):
            return 0
        raise
    print(f"Stopped. Your work is in {work}.")
    return watch.status


def _run(settings: Settings, asked: StartSettings) -> "Watch":
    """Run both until they are told to end."""
    data, work = settings.data, data_directory(asked.work)
    with open_server(settings) as server:
        environment = {
            "AUTOGRADER_SERVER": server.url,
            "AUTOGRADER_TOKEN_FILE": str(learner_token(server, data, asked.name)),
        }
        port = free_port(asked.lab_port, LAB_PORT)
        with contextlib.closing(start_jupyter(work, data, port, environment, PAGE)) as jupyter:
            watch = Watch(server, jupyter, data / LEARNER_TOKEN, browser=asked.browser)
            server.run(watch.begin)
            watch.join()
    return watch


def show_running(data: Path, *, browser: bool) -> bool:
    """Say the addresses of the `start` that works in `data`, and open them; False without one."""
    try:
        addresses = json.loads((data / RUNNING).read_text())
        url, text = str(addresses["url"]), str(addresses["text"])
        if not serves(url):
            return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    print(f"Running already, since another start:\n{text}")
    if browser and has_display():
        webbrowser.open(url)
    return True


def free_port(wanted: int | None, usual: int) -> int:
    """Return the port that was asked for, 0 being any, or the first free one from `usual` on.

    Raises:
        StartError: the port that was asked for is taken, or all near the usual one are.
    """
    candidates: Sequence[int] = [wanted] if wanted else range(usual, usual + _NEAR)
    if wanted == 0:
        candidates = random.sample(_QUIET, _NEAR)
    for port in candidates:
        try:
            with listen(LOOPBACK, port) as listener:
                return int(listener.getsockname()[1])
        except StartError:
            if wanted:
                raise
    raise StartError(
        f"start: no free port from {usual} to {usual + _NEAR - 1}. Say which to use. "
        "Help: when_it_does_not_work.html#ports-in-use"
    )


def learner_token(server: Server, data: Path, name: str | None) -> Path:
    """Return the file with the local learner's token, enrolling them if need be."""
    roster, path = server.course.store.roster, data / LEARNER_TOKEN
    owner = roster.owner(path.read_text().strip(), "bearer") if path.exists() else None
    if owner is None or (name is not None and owner.login != name):
        body = {"login": name or _login(), "renew": True}
        try:
            lives_s = server.course.settings.bearer_s
            _, token, _ = enroll(roster, body, lives_s)
        except Refused as error:
            raise StartError(f"start: {error} Say --name NAME.") from error
        write_secret(path, token + "\n")
    return path.resolve()


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        return "learner"


class Watch:
    """Says the addresses once both answer; stops the server when JupyterLab ends by itself."""

    def __init__(self, server: Server, jupyter: Jupyter, token: Path, *, browser: bool) -> None:
        self.status = 0
        self._server = server
        self._jupyter = jupyter
        self._token = token
        self._browser = browser
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Begin to watch: the course server answers."""
        self._thread.start()

    def join(self) -> None:
        """End the watch."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        announced = False
        while not self._over.wait(_LOOK_AGAIN_S):
            if self._jupyter.has_ended():
                print(
                    f"start: JupyterLab ended: {self._jupyter.last_words()}\n"
                    "Help: when_it_does_not_work.html#jupyterlab-does-not-start",
                    file=sys.stderr,
                )
                self.status = 2
                self._server.stop()
                return
            if not announced and self._jupyter.answers():
                announced = True
                self._say()

    def _say(self) -> None:
        text = (
            f"JupyterLab:    {self._jupyter.url}\n"
            f"Course server: {self._server.url}\n"
            f"Your token, to log in there: {self._token}"
        )
        write_secret(
            self._token.parent / RUNNING, json.dumps({"url": self._jupyter.url, "text": text})
        )
        print(f"{text}\nCtrl-C stops both. Your work stays.", flush=True)
        if self._browser and not (has_display() and webbrowser.open(self._jupyter.url)):
            print(
                "No browser to open here: open JupyterLab's address in one. "
                "Help: when_it_does_not_work.html#no-browser-opens",
                flush=True,
            )


def has_display() -> bool:
    """Return whether a browser would have somewhere to open."""
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(named) or sys.platform == "darwin"
