"""A real headless Chromium; `autograder start` as a learner types it; Voila over all demos.

`audit` is what every widget is held to, wherever it is shown (audit.js).
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
DEMOS = ROOT / "labs" / "demos"
AUDIT = Path(__file__).with_name("audit.js").read_text(encoding="utf-8")

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

HEAR_ERRORS = """window.errors = [];
addEventListener("error", (event) => event.error && errors.push(event.message));"""

WAIT_MS = 120_000
VOILA_PORT = 8866  # or one after it that is free


@pytest.fixture(scope="package")
def chromium(chromium_path: str) -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)  # five seconds are few where other work goes on
    with sync_playwright() as playwright:
        launch = playwright.chromium.launch
        browser = launch(executable_path=chromium_path, args=FLAGS, timeout=WAIT_MS)
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


@pytest.fixture(scope="package")
def sheet(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Return a way to open a file in one page, offline: a page of its own costs more than the file.

    Nothing is left of the file that was open; `window.errors` holds what scripts threw.
    """
    context = chromium.new_context(offline=True)
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.add_init_script(HEAR_ERRORS)

    def show(url: str, width: int = 1100, height: int = 900) -> Any:
        page.goto("about:blank")  # else a page that is open already would stay as it is
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.goto(url)
        return page

    yield show
    context.close()


@pytest.fixture
def stop_clock() -> Callable[[Any], None]:
    """Return what lets time stand still on a page; it goes on by `page.clock.run_for(ms)` alone.

    So what is seen in passing is seen, however late one looks.
    """

    def stop(page: Any) -> None:
        page.clock.install()
        page.clock.pause_at(datetime.now() + timedelta(hours=1))

    return stop


@dataclass(frozen=True)
class Started:
    """What `autograder start` said, and where it works."""

    jupyter: str
    server: str
    work: Path
    process: "subprocess.Popen[str]"


@pytest.fixture(scope="package")
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
        process.communicate(timeout=120)
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


KERNEL_IS_IDLE = """(path) => {
  const widget = window.jupyterapp?.shell?.currentWidget;
  const kernel = widget?.context?.path === path && widget.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
DO = "(command) => { window.jupyterapp.commands.execute(...command); return 1 }"
END_ALL = """async () => {
  for (const widget of [...window.jupyterapp.shell.widgets("main")]) widget.dispose();
  await window.jupyterapp.serviceManager.sessions.shutdownAll();
}"""


@pytest.fixture(scope="package")
def jupyterlab(started: Started, chromium: Any) -> Iterator[tuple[Visit, Any]]:
    """Return JupyterLab's one page: to load it takes longer than what a test does in it."""
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MS)
    visit = Visit(context, set())
    context.on("request", lambda r: visit.hosts.add(urlsplit(r.url).hostname or ""))
    page = visit.open(f"{started.jupyter}&reset")
    page.wait_for_function("() => window.jupyterapp?.shell?.widgets")
    page.evaluate("() => window.jupyterapp.restored.then(() => 1)")
    yield visit, page
    context.close()


@pytest.fixture
def in_lab(
    started: Started, jupyterlab: tuple[Visit, Any], request: pytest.FixtureRequest
) -> Callable[..., tuple[Visit, Any]]:
    """Return a way to run cells in JupyterLab: `browser, page = in_lab(cells, theme="Dark")`.

    The window is as tall as is told, for cells that are out of sight are not drawn; `folder` is a
    lab's; other options are of the media that a page can ask for. What ran there before is ended.
    """

    def run(
        sources: list[str],
        theme: str = "Light",
        height: int = 900,
        folder: str = "",
        **media: Any,
    ) -> tuple[Visit, Any]:
        browser, page = jupyterlab
        name = re.sub(r"\W+", "_", request.node.name) + ".ipynb"
        path = (Path(folder) / name).as_posix()
        (started.work / path).write_text(json.dumps(notebook_of(sources)))
        page.evaluate(END_ALL)
        page.emulate_media(**{"color_scheme": "light", "reduced_motion": "no-preference", **media})
        page.set_viewport_size({"width": 1100, "height": height})
        page.evaluate(DO, ["docmanager:open", {"path": path}])
        page.wait_for_function(KERNEL_IS_IDLE, arg=path)
        change_theme(page, theme)
        page.evaluate(DO, ["notebook:run-all-cells"])
        return browser, page

    return run


def change_theme(page: Any, theme: str) -> None:
    """Let JupyterLab be "Light" or "Dark"."""
    page.evaluate(DO, ["apputils:change-theme", {"theme": f"JupyterLab {theme}"}])
    light = f"[data-jp-theme-light='{str(theme == 'Light').lower()}']"
    page.wait_for_selector(f"body{light}", state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")  # fades over what is there


def notebook_of(sources: list[str]) -> dict[str, Any]:
    """Return a notebook of code cells."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "id": f"cell{i}", "source": source} for i, source in enumerate(sources)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture(scope="package")
def voila(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of one Voila over all demos, as `make demos` starts it."""
    folder = tmp_path_factory.mktemp("voila")
    options = ["--no-browser", f"--port={VOILA_PORT}", "--Voila.ip=127.0.0.1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "voila", str(DEMOS), "--template=offline", *options],
        env={
            **os.environ,
            **private_directories(folder),
            "JUPYTER_PATH": str(DEMOS / "share" / "jupyter"),
            "OMP_NUM_THREADS": "1",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    try:
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                break
        else:
            raise AssertionError(said)
        # What it says later is read and dropped: a pipe that is full would stop it.
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        yield found[0]
        process.terminate()
        reader.join()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


# What there is to see of a widget; and from here on it is noted with each key which stop had the
# focus, and how that was seen: nobody is asked meanwhile.
LOOK = """(root) => {
  root.scrollIntoView({ block: "nearest" });
  const stops = reachable(root);
  window.seen = () => [stops.indexOf(document.activeElement), outlined()];
  window.followed = [];
  removeEventListener("keydown", window.follow, true);
  addEventListener("keydown", window.follow = () => followed.push(seen()), true);
  return [audit(root), stops.map((node) => node.outerHTML.slice(0, 80))];
}"""
START = "(root) => reachable(root)[0]?.focus({ focusVisible: true })"
FOLLOWED = "(root) => [[...followed, seen()], root.getAnimations({ subtree: true }).length]"


@pytest.fixture(scope="package")
def audit() -> Callable[..., list[str]]:
    """Return what finds everything that widgets of a page owe: `audit(page, ".mt-player")`.

    Looks at each (audit.js), then goes through each by Tab, unless told not to by `keys=False`;
    nothing may move by itself.
    """

    def look(page: Any, selector: str, *, keys: bool = True) -> list[str]:
        page.evaluate(AUDIT)
        roots = page.query_selector_all(selector)
        assert roots
        problems = []
        for root in roots:
            found, names = root.evaluate(LOOK)
            problems += [f"{p['rule']}: {p['what']}" for p in found]
            if keys and names:
                root.evaluate(START)
                problems += by_tab(page, root, names)
            if root.evaluate(FOLLOWED)[1]:
                problems.append("something moves")
        return problems

    return look


def by_tab(page: Any, root: Any, names: list[str]) -> list[str]:
    """Return what Tab does not reach in the order of the page, and what does not show its focus."""
    seen = names[:1]
    for _ in range(10):  # a date's day, month, year, ... are stops of one field
        for _ in range(len(names) - len(seen)):
            page.keyboard.down("Tab")
        page.keyboard.up("Tab")
        noted, _ = root.evaluate(FOLLOWED)
        before = [-1, *(at for at, _ in noted)]
        seen = [n for n, last in zip(noted, before, strict=False) if n[0] != last or n[0] < 0]
        if len(seen) >= len(names):
            break
    problems = []
    for k, (name, (at, contrast)) in enumerate(zip(names, seen, strict=False)):
        if at != k:
            problems.append(f"not reached by Tab in its place: {name}")
        elif contrast < 3:
            problems.append(f"focus is not seen: {name}")
    return problems + [f"not reached by Tab: {name}" for name in names[len(seen) :]]
