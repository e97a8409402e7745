"""A test process that crashes: the end of the run says how, and where it was."""

import os
import subprocess
import sys
from pathlib import Path

CRASHES = """import ctypes, os

def test_segfault():
    ctypes.string_at(0)

def test_kill():
    os.kill(os.getpid(), 9)

def test_exit():
    os._exit(3)
"""


def test_a_crash_is_explained_at_the_end_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_crash.py").write_text(CRASHES)
    plugins = ("-p", "tests.conftest", "-p", "xdist", "-p", "no:cacheprovider")
    options = ["--numprocesses=1", f"--rootdir={tmp_path}", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # it takes longer than the tests
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    _, segfault, kill, exit_ = ran.stdout.split("a test process crashed")
    assert "was ended by SIGSEGV" in segfault
    assert 'test_crash.py", line 4 in test_segfault' in segfault
    assert "was ended by SIGKILL" in kill
    assert "was ended by exit status 3" in exit_
