"""`launch(..., cluster=)`, in a process of its own: Dask leaves event loops behind, which warn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).with_name("on_a_cluster.py")


@pytest.mark.slow
def test_ranks_on_a_dask_cluster() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default"]
    forking = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"}  # one import
    done = subprocess.run(
        [*command, str(TESTS)],
        env={**os.environ, **forking},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout
