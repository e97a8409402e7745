"""A real headless Chromium, and `autograder start` as a learner types it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]

# One lab as small as a lab can be, and one of the course.
LABS = [ROOT / "tests/autograder/sample_labs/scale_and_sum", ROOT / "labs/09_ring_all_reduce"]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]

WAIT_MS = 60_000


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)  # five seconds are few where other work goes on
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@dataclass(frozen=True)
class Visit:
    """A browser context, and the hosts that its pages asked."""

    context: Any
    hosts: set[str]

    def open(self, url: str) -> Any:
        page = self.context.new_page()
        page.goto(url)
        return page


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Visit]]:
    """Return a way to open a fresh browser context, light unless told `color_scheme="dark"`."""
    opened = []

    def fresh(**options: Any) -> Visit:
        context = chromium.new_context(viewport={"width": 1100, "height": 900}, **options)
        context.set_default_timeout(WAIT_MS)
        made = Visit(context, set())
        context.on("request", lambda r: made.hosts.add(urlsplit(r.url).hostname or ""))
        opened.append(context)
        return made

    yield fresh
    for context in opened:
        context.close()


@dataclass(frozen=True)
class Started:
    """What `autograder start` said, and where it works."""

    jupyter: str
    server: str
    work: Path
    process: "subprocess.Popen[str]"


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Return a running `autograder start` over LABS, for learner Ada."""
    folder = tmp_path_factory.mktemp("start")
    labs = folder / "labs"
    labs.mkdir()
    for lab in LABS:
        (labs / lab.name).symlink_to(lab)
    with running(labs, folder) as found:
        yield found


@contextmanager
def running(labs: Path, folder: Path) -> Iterator[Started]:
    """Have `autograder start` for the time of a `with`; everything of it lies in `folder`."""
    work = folder / "work"
    program = "from autograder.cli import main; raise SystemExit(main())"
    arguments = ["start", "--labs", labs, "--work", work, "--port=0", "--lab-port=0"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments, "--name=Ada", "--no-browser"],
        env={**os.environ, **private_directories(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Started(*addresses(process), work, process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


def private_directories(folder: Path) -> dict[str, str]:
    names = ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"]
    names += ["JUPYTERLAB_SETTINGS_DIR"]
    return {name: str(folder / name.lower()) for name in names}


def addresses(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Return the addresses of JupyterLab and the course server, once both are said."""
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if "Ctrl-C" in line:
            break
    jupyter = re.search(r"JupyterLab: +(\S+)", said)
    server = re.search(r"Course server: +(\S+)", said)
    assert jupyter and server, said
    return jupyter[1], server[1]
