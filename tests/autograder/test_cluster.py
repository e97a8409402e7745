"""A Dask cluster grades what a machine grades, though a worker dies on the way.

The cluster runs in a process of its own: Dask leaves event loops behind, and here warnings are
errors.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.cli import main
from autograder.notebook import solution_notebook
from autograder.records import Lab

GRADE = """
import json, sys
from pathlib import Path
import distributed
from autograder.cluster import ClusterFarm
from autograder.paths import Item
from autograder.source import load_lab

if __name__ == "__main__":
    lab, notebook, out = map(Path, sys.argv[1:])
    items = [Item(notebook, f"s{number}") for number in range(8)]
    items.append(Item(out / "none", "none"))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as c:
        farm = ClusterFarm(load_lab(lab), out, address=c.scheduler_address)
        scores = []
        for one in farm.grade(items):
            if not scores:
                next(iter(c.workers.values())).process.process.kill()
            scores.append(one.report["score"])
    print(json.dumps(scores))
"""


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_cluster_grades_everything_though_a_worker_is_killed(
    sample_lab: Lab, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: the extra `grade`")
    notebook, script, out = tmp_path / "lab.ipynb", tmp_path / "script.py", tmp_path / "out"
    notebook.write_text(solution_notebook(sample_lab))
    script.write_text(GRADE)
    out.mkdir()
    command = [sys.executable, str(script), str(sample_lab.directory), str(notebook), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout.splitlines()[-1])) == [0.0] + [8.0] * 8
    assert len(list(out.glob("*.json"))) == len(list(out.glob("*.html"))) == 9


def test_a_scheduler_that_is_not_there_is_said(sample_directory, tmp_path, capsys) -> None:
    arguments = ["grade", str(sample_directory), "x.ipynb", "-o", str(tmp_path / "out")]
    assert main([*arguments, "--scheduler", "no address"]) == 2
    assert "autograder: grade: " in capsys.readouterr().err
