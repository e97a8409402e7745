"""`autograder start`: labs handed out, a learner enrolled, two servers that end together."""

import os
import re
import select
import shutil
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from autograder.service.client import Connection
from autograder.service.errors import StartError
from autograder.service.running.handout import hand_out
from autograder.service.running.jupyter import Jupyter, serves
from autograder.service.running.start import free_port, learner_token
from tests.autograder.service.forked import COMMAND, Forked

SAMPLE = Path(__file__).parents[1] / "sample_labs" / "scale_and_sum"
START = (
    "start",
    f"--labs={SAMPLE.parent}",
    "--port=0",
    "--lab-port=0",
    "--name=Ada",
    "--no-browser",
)


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "labs" / "01_scale"))


def test_a_lab_is_handed_out_without_solutions_or_hidden_checks(lab: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert hand_out([lab], work) == []
    names = {path.name for path in (work / "01_scale").iterdir()}
    assert names == {"lab.ipynb", "lab.json", "checks.py"}
    text = "".join(path.read_text() for path in (work / "01_scale").iterdir())
    assert "return x * factor" not in text and "a_negative_factor" not in text
    assert "Names the unit" not in text


def test_the_page_beside_the_labs_goes_along_and_is_where_jupyter_opens(
    lab: Path, tmp_path: Path
) -> None:
    hand_out([lab], tmp_path / "work")
    bare = Jupyter(None, 80, "t", tmp_path)  # type: ignore[arg-type]
    assert bare.url == "http://127.0.0.1:80/lab?token=t"
    (lab.parent / "README.md").write_text("# The way through")
    hand_out([lab], tmp_path / "work")
    assert (tmp_path / "work" / "README.md").read_text() == "# The way through"
    assert replace(bare, page="README.md").url == "http://127.0.0.1:80/lab/tree/README.md?token=t"


def test_a_learners_notebook_is_never_written_again(lab: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    hand_out([lab], work)
    notebook, checks = work / "01_scale" / "lab.ipynb", work / "01_scale" / "checks.py"
    notebook.write_text("mine")
    checks.write_text("broken by accident")
    mended = (SAMPLE / "checks.py").read_text().replace("Look at the first", "mended")
    (lab / "checks.py").write_text(mended)
    later = (work / "01_scale" / "lab.json").stat().st_mtime + 10
    os.utime(lab / "checks.py", (later, later))
    assert hand_out([lab], work) == []
    assert notebook.read_text() == "mine"
    assert "mended" in checks.read_text()


def test_a_malformed_lab_is_left_out_and_the_others_are_not(lab: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(SAMPLE, tmp_path / "labs" / "02_broken"))
    (broken / "checks.py").write_text("import no_such_module")
    problems = hand_out([broken, lab], tmp_path / "work")
    assert len(problems) == 1 and "02_broken is left out" in problems[0]
    assert (tmp_path / "work" / "01_scale" / "lab.ipynb").exists()
    assert not (tmp_path / "work" / "02_broken").exists()


def test_a_taken_port_is_an_error_if_asked_for_and_passed_over_if_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=f"port {port} is taken"):
            free_port(port, port)
        assert port < free_port(None, port) < port + 50


def test_any_port_is_one_that_nobody_is_given_meanwhile() -> None:
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found = free_port(0, 8888)
    assert found < first_given or first_given < 32_768  # where an administrator gives out others


def test_the_learner_keeps_their_token_from_start_to_start(running: Any, tmp_path: Path) -> None:
    path = learner_token(running.server, tmp_path, "Ada")
    token = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert learner_token(running.server, tmp_path, None).read_text() == token
    assert learner_token(running.server, tmp_path, "Bob").read_text() != token
    with pytest.raises(StartError, match="cannot be a name"):
        learner_token(running.server, tmp_path, "=1")


@contextmanager
def started(tmp_path: Path) -> Iterator[tuple[Forked, list[str], Path]]:
    """Run `start`; yield its process, the addresses that it said, and its working folder."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    own = {name: str(tmp_path / name) for name in names}
    first = f"import os; os.environ.update({own}); "
    process = Forked(first + COMMAND, *START, "--work", tmp_path / "work", apart=True)
    try:
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        yield process, re.findall(r"http://\S+", "".join(lines)), tmp_path / "work"
    finally:
        process.kill()
        process.communicate()


def is_open(url: str) -> bool:
    address = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) == 0


def child(process: Forked, name: str) -> int:
    """Return the process id of the child whose command line has `name` in it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(p) for p in children if name in Path(f"/proc/{p}/cmdline").read_text())


def test_an_address_that_refuses_serves_nothing_and_is_let_go_of() -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(503)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        assert not serves(url)  # Python 3.14 warns of an answer that stays open, an error here
        server.shutdown()
        serving.join()
    assert not serves(url)


def test_a_second_start_says_where_the_first_is_and_a_signal_stops_both(tmp_path: Path) -> None:
    with started(tmp_path) as (process, addresses, work):
        jupyter, server = addresses
        with urllib.request.urlopen(jupyter) as answer:
            assert answer.status == 200
        token = (work / ".course" / "learner.token").read_text().strip()
        notebook = (work / "scale_and_sum" / "lab.ipynb").read_bytes()
        assert Connection(server, token).submit("scale_and_sum", notebook)["id"] == 1
        again = Forked(COMMAND, *START, "--work", work, apart=True)
        said, problems = again.communicate()
        assert again.returncode == 0, problems
        assert jupyter in said and server in said
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        assert process.stdout.read().endswith(f"Your work is in {work}.\n")
        assert not is_open(jupyter) and not is_open(server)


def test_when_jupyter_ends_the_server_ends_with_a_message(tmp_path: Path) -> None:
    with started(tmp_path) as (process, addresses, _):
        os.kill(child(process, "jupyterlab"), signal.SIGKILL)
        assert process.wait(120) == 2
        assert "JupyterLab ended" in process.stderr.read()
        assert not any(is_open(url) for url in addresses)


def test_nothing_is_left_when_start_itself_is_killed(tmp_path: Path) -> None:
    with started(tmp_path) as (process, addresses, _):
        jupyter = child(process, "jupyterlab")
        gone = os.pidfd_open(jupyter)
        process.kill()
        assert select.select([gone], [], [], 120)[0]
        os.close(gone)
        assert not any(is_open(url) for url in addresses)
