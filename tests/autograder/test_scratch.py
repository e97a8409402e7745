"""Folders of graders go with their owners, and what a killed one left goes with the next."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autograder.grading.line_process import Scratch, remove_abandoned

HOLDS = """
from autograder.grading.line_process import Scratch
made = Scratch()
(made.path / "file").write_text("in use")
print(made.path, flush=True)
input()
"""


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that holds a folder."""
    command = [sys.executable, "-c", HOLDS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def in_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    remove_abandoned.cache_clear()


def test_a_folder_goes_when_it_is_closed(tmp_path: Path) -> None:
    made = Scratch()
    (made.path / "file").write_text("in use")
    made.close()
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_what_killed_owners_left_goes_with_the_next_and_nothing_of_the_living(
    tmp_path: Path,
) -> None:
    with owner() as (_, living):
        for _ in range(5):
            with owner() as (process, left):
                process.kill()
                process.wait()
            assert left.exists()
        remove_abandoned.cache_clear()
        own = Scratch()
        assert set(tmp_path.iterdir()) == {living, own.path}
        assert (living / "file").read_text() == "in use"
        own.close()


def test_links_and_what_is_not_ours_alone_stay(tmp_path: Path) -> None:
    other = tmp_path / "kept"
    other.mkdir()
    (other / ".owner").touch()
    (tmp_path / "autograder-link").symlink_to(other)
    full = tmp_path / "autograder-full"  # an older release's, in use or not
    full.mkdir()
    (full / "file").touch()
    for name in ("autograder-old", "autograder-young", ".autograder-new"):
        (tmp_path / name).mkdir()
    then = time.time() - 3600
    os.utime(tmp_path / "autograder-old", (then, then))
    remove_abandoned(str(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        "kept", "autograder-link", "autograder-full", "autograder-young", ".autograder-new",
    }  # fmt: skip
