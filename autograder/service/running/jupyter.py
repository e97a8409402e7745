"""JupyterLab as a child process: on loopback, with a token, ended when we end."""

import ctypes
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autograder.extras import describe_missing
from autograder.service.errors import StartError
from autograder.service.settings import LOOPBACK

# Kernels save what they hold when they are asked to end; then they are ended.
_GRACE_S = 10.0

# No news and no look for updates: nothing leaves the machine, and no popup covers a notebook.
_OVERRIDES = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    # The way through the labs is there to be read and its links to be followed, not to be edited.
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
}


def serves(url: str) -> bool:
    """Return whether an address answers with a page."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refusal:
        refusal.close()  # it is an answer too, with a connection of its own
        return False
    except OSError:
        return False


@dataclass(frozen=True)
class Jupyter:
    """A JupyterLab that runs, and where it writes its log."""

    process: "subprocess.Popen[bytes]"
    port: int
    token: str
    log: Path
    page: str = ""

    @property
    def url(self) -> str:
        """The address that opens it in a browser, logged in, on `page` where there is one."""
        tree = f"/tree/{self.page}" if self.page else ""
        return f"http://{LOOPBACK}:{self.port}/lab{tree}?token={self.token}"

    def answers(self) -> bool:
        """Return whether it serves pages yet."""
        return serves(f"http://{LOOPBACK}:{self.port}/api/status?token={self.token}")

    def has_ended(self) -> bool:
        """Return whether its process is gone."""
        return self.process.poll() is not None

    def last_words(self) -> str:
        """Return the last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def close(self) -> None:
        """End it, its kernels first; return when it is gone."""
        self.process.terminate()
        try:
            self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:  # Windows
                self.process.kill()
            self.process.wait()


def start_jupyter(
    work: Path, data: Path, port: int, environment: Mapping[str, str], page: str = ""
) -> Jupyter:
    """Return a JupyterLab on `work`, starting up; its kernels have `environment` as well.

    Its address shows `page` of `work`, if that is there.

    Raises:
        StartError: JupyterLab is not installed.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise StartError(describe_missing("start", "lab", "No module named 'jupyterlab'"))
    token = secrets.token_hex(24)
    settings, log = data / "jupyter", data / "jupyter.log"
    settings.mkdir(exist_ok=True)
    (settings / "overrides.json").write_text(json.dumps(_OVERRIDES))
    private = {"JUPYTER_TOKEN": token, "JUPYTERLAB_WORKSPACES_DIR": str(settings / "workspaces")}
    with log.open("wb") as out:
        process = subprocess.Popen(
            _command(work, settings, port),
            env={**os.environ, **environment, **private},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours; JupyterLab would ask whether we mean it
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
    return Jupyter(process, port, token, log, page if (work / page).is_file() else "")


def _command(work: Path, settings: Path, port: int) -> list[str]:
    options = {
        "ServerApp.ip": LOOPBACK,
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": work.resolve(),
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": hasattr(os, "geteuid") and os.geteuid() == 0,  # Windows has none
        "LabApp.app_settings_dir": settings.resolve(),
        "LabApp.expose_app_in_browser": True,  # so that the panel can save before it submits
        "LabApp.news_url": "None",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", "jupyterlab", *flags]


def _end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, even if it is killed outright."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
