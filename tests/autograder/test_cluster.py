"""A Dask cluster grades what a machine grades, though a worker dies on the way.

The cluster runs in a process of its own: Dask leaves event loops behind, and here warnings are
errors.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.cli import main
from autograder.grading.cluster import client_of
from autograder.records import Lab

GRADE = """
import json, os, signal, sys
from pathlib import Path
import distributed
from autograder.grading.cluster import Cluster
from autograder.grading.judges import Judges
from autograder.grading.paths import Item
from autograder.authoring.source import load_lab

if __name__ == "__main__":
    lab, notebook, out = map(Path, sys.argv[1:])
    items = [Item(notebook, f"s{number}") for number in range(8)]
    items.append(Item(out / "none", "none"))
    found = {"scores": []}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c:
        here, first = Cluster(c.scheduler_address), next(iter(c.workers.values()))
        judges = Judges(load_lab(lab), out, timeout_s=60.0, cluster=here)
        hangs = Judges(load_lab(lab.with_name("hangs")), out, 1, 8.0, True, here)
        (one,) = hangs.grade([Item(notebook, "hangs")])
        found["hangs"] = one.report["score"], list(one.broken)
        for one in judges.grade(items):
            if not found["scores"]:
                os.kill(first.pid, signal.SIGKILL)
            found["scores"].append(one.report["score"])
    print(json.dumps(found))
"""


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_cluster_grades_everything_though_a_worker_is_killed(
    sample_lab: Lab, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    hanging = shutil.copytree(sample_lab.directory, tmp_path / "hangs") / "checks.py"
    lab = shutil.copytree(sample_lab.directory, tmp_path / sample_lab.name)
    own = "    x = rng.normal(size=(4, 3))\n"
    hanging.write_text(hanging.read_text().replace(own, f"    import time; time.sleep(600)\n{own}"))
    notebook, script, out = tmp_path / "lab.ipynb", tmp_path / "script.py", tmp_path / "out"
    notebook.write_text(solution_notebook(sample_lab))
    script.write_text(GRADE)
    out.mkdir()
    command = [sys.executable, str(script), str(lab), str(notebook), str(out)]
    forking = {"DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD": "forkserver"}  # one import
    done = subprocess.run(
        command, env={**os.environ, **forking}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    score, broken = found["hangs"]
    assert score == 8.0 and "rows_are_added" in broken[0]  # a check's fault is not the learner's
    assert sorted(found["scores"]) == [0.0] + [8.0] * 8
    assert len(list(out.glob("*.json"))) == len(list(out.glob("*.html"))) == 10


def test_a_scheduler_that_is_not_there_is_said(sample_directory, tmp_path, capsys) -> None:
    arguments = ["grade", str(sample_directory), "x.ipynb", "-o", str(tmp_path / "out")]
    assert main([*arguments, "--scheduler", "no address"]) == 2
    assert "autograder: grade: " in capsys.readouterr().err


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_a_client_whose_thread_begins_late_is_made_again(failures: int) -> None:
    late = iter([AssertionError()] * failures)

    def make(address: str, **options: object) -> tuple[str, object]:
        for error in late:
            raise error
        return address, options

    dask = SimpleNamespace(Client=make)
    if failures > 2:
        with pytest.raises(AssertionError):
            client_of(dask, "tcp://here:1")
    else:
        assert client_of(dask, "tcp://here:1", timeout=5) == ("tcp://here:1", {"timeout": 5})
