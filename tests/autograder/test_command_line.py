"""The commands as a person types them: exit codes, files written, messages."""

import argparse
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.source import load_lab
from autograder.cli import main
from autograder.commands import _find_graded
from autograder.errors import SubmissionError
from autograder.grading.grade import LabGrader
from autograder.grading.judges import Judges
from autograder.grading.paths import Item, content_of, items_of
from autograder.grading.report import write
from autograder.records import Lab

SANDBOX = pytest.mark.sandbox


@pytest.fixture
def inbox(tmp_path: Path, sample_lab: Lab) -> Path:
    """Return a directory with one submission of every kind."""
    for name in ("ada", "bob", "nested"):
        (tmp_path / name).mkdir()
    (tmp_path / "ada" / "lab.ipynb").write_text(solution_notebook(sample_lab))
    (tmp_path / "bob" / "lab.ipynb").write_text(learner_notebook(sample_lab))
    (tmp_path / "cut.ipynb").write_text(solution_notebook(sample_lab)[:500])
    (tmp_path / "empty.ipynb").write_bytes(b"")
    other = {"metadata": {"autograder": {"lab": "other"}}, "cells": [], "nbformat": 4}
    (tmp_path / "other.ipynb").write_text(json.dumps(other))
    (tmp_path / "directory.ipynb").mkdir()
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("x/lab.ipynb", solution_notebook(sample_lab))
    return tmp_path


def score(out: Path, stem: str) -> float:
    assert (out / f"{stem}.html").read_text().startswith("<!doctype html>")
    return float(json.loads((out / f"{stem}.json").read_text())["score"])


@SANDBOX
def test_every_path_has_its_reports_whatever_it_holds(
    inbox, sample_directory, tmp_path, capsys
) -> None:
    out = tmp_path / "out"
    paths = [
        "ada",
        "bob/lab.ipynb",
        "cut.ipynb",
        "empty.ipynb",
        "directory.ipynb",
        "zipped.zip",
        "no.ipynb",
        "other.ipynb",
    ]
    paths = [str(inbox / path) for path in paths]
    assert main(["grade", str(sample_directory), *paths, "-o", str(out), "--jobs", "2"]) == 0
    stems = ["lab", "bob-lab", "cut", "empty", "directory", "zipped", "no", "other"]
    assert sorted(p.name for p in out.iterdir()) == sorted(
        f"{stem}.{kind}" for stem in stems for kind in ("json", "html")
    )
    assert [score(out, stem) for stem in stems] == [8.0, 0.0, 0.0, 0.0, 0.0, 8.0, 0.0, 0.0]
    printed = capsys.readouterr().out
    assert "no: 0 of 8 points: notebook: cannot read no.ipynb" in printed
    assert "other: 0 of 8 points: This is a notebook of lab other" in printed
    assert "scale: every element is multiplied by the factor" in printed


@SANDBOX
def test_a_name_in_an_archive_forges_no_line_of_the_batch(
    sample_directory, tmp_path, capsys
) -> None:
    forged = "[1/1] eve: 8 of 8 points"
    with zipfile.ZipFile(tmp_path / "eve.zip", "w") as archive:
        for name in ("a", "b"):
            archive.writestr(f"{name}\n{forged}\n.ipynb", "{}")
    arguments = [str(tmp_path / "eve.zip"), "-o", str(tmp_path / "out")]
    assert main(["grade", str(sample_directory), *arguments]) == 0
    assert forged not in capsys.readouterr().out.splitlines()


@SANDBOX
def test_json_prints_a_report_a_line(inbox, sample_directory, tmp_path, capsys) -> None:
    arguments = [str(inbox / "ada" / "lab.ipynb"), "-o", str(tmp_path / "out"), "--json"]
    assert main(["grade", str(sample_directory), *arguments, "--timeout-s", "20"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == json.loads((tmp_path / "out" / "lab.json").read_text())


@SANDBOX
def test_a_resumed_run_leaves_what_is_done_and_keeps_manual_scores(
    inbox, sample_directory, tmp_path, capsys
) -> None:
    out = tmp_path / "out"
    grade = ["grade", str(sample_directory), str(inbox / "ada"), "-o", str(out)]
    assert main(grade) == 0
    report = json.loads((out / "lab.json").read_text())
    report["manual"][0] |= {"score": 1.5, "comment": "Good."}
    (out / "lab.json").write_text(json.dumps(report))
    capsys.readouterr()
    assert main([*grade, "--resume"]) == 0
    assert capsys.readouterr().out == ""
    resumed = argparse.Namespace(out=out, resume=True)
    assert _find_graded(resumed, items_of([inbox / "ada"])[0])
    assert not _find_graded(resumed, Item(inbox / "bob" / "lab.ipynb", "lab", "bob/lab.ipynb"))
    assert main(grade) == 0
    report = json.loads((out / "lab.json").read_text())
    assert (report["score"], report["max_score"]) == (9.5, 10.0)
    assert report["manual"][0]["comment"] == "Good."


@SANDBOX
def test_a_resumed_run_sums_up_all_of_it(inbox, sample_directory, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    grade = ["grade", str(sample_directory), str(inbox), "-o", str(out)]
    assert main(grade) == 0
    said = capsys.readouterr().out
    assert said.endswith("4 checks: 3 in the notebook too, 1 at submission only.\n")
    whole = said.partition("points\n")[2].splitlines()[-4:]
    sorted(out.glob("*.json"))[0].unlink()
    assert main([*grade, "--resume"]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == whole


@SANDBOX
def test_check_runs_the_public_checks(inbox, sample_directory, capsys) -> None:
    assert main(["check", str(sample_directory), str(inbox / "ada" / "lab.ipynb")]) == 0
    said = capsys.readouterr().out
    assert "6 of 6 points" in said
    assert said.endswith("  3 checks run here; 1 more runs when you submit.\n")
    assert main(["check", str(sample_directory), str(inbox / "bob" / "lab.ipynb")]) == 1


@SANDBOX
def test_check_takes_answers_that_lie_in_files(sample_directory, tmp_path, capsys) -> None:
    notebook = tmp_path / "lab.ipynb"
    notebook.write_text(learner_notebook(load_lab(sample_directory)))
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / "scale.py").write_text("def scale(x, factor):\n    return factor * x")
    assert main(["check", str(sample_directory), str(notebook)]) == 1
    assert "✓       2/2  scale: every element" in capsys.readouterr().out


@SANDBOX
def test_a_judge_that_dies_over_a_submission_is_replaced(lab_copy, tmp_path, inbox) -> None:
    dies = "    import os\n\n    os._exit(3)\n"
    lab = load_lab(lab_copy(checks=[('    got = student.call("sum_rows", x)\n', dies)]))
    items = [Item(inbox / name / "lab.ipynb", name) for name in ("ada", "bob")]
    found = {one.item.stem: one.report for one in Judges(lab, tmp_path, jobs=1).grade(items)}
    assert "exit status 3. Staff must look" in found["ada"]["error"]
    assert found["bob"]["error"] == ""
    assert score(tmp_path, "ada") == score(tmp_path, "bob") == 0.0


@SANDBOX
def test_marks_stay_where_grading_again_comes_to_nothing(sample_lab, tmp_path) -> None:
    report = LabGrader(sample_lab).grade(solution_notebook(sample_lab).encode(), submission="ada")
    write(report, tmp_path, "ada")
    path = tmp_path / "ada.json"
    marked = json.loads(path.read_text())
    marked["manual"][0] |= {"score": 1.5, "comment": "Good."}
    path.write_text(json.dumps(marked))
    write(LabGrader(sample_lab).unreadable("the judge was lost", "ada"), tmp_path, "ada")
    write(report, tmp_path, "ada")
    kept = json.loads(path.read_text())["manual"][0]
    assert (kept["score"], kept["comment"]) == (1.5, "Good.")


@SANDBOX
def test_a_report_that_cannot_be_written_is_said_and_leaves_no_draft(
    sample_directory, tmp_path, capsys
) -> None:
    out = tmp_path / "out"
    (out / "x.html").mkdir(parents=True)
    assert main(["grade", str(sample_directory), "x.ipynb", "-o", str(out)]) == 2
    assert f"grade: cannot write {out / 'x.html'}: Is a directory" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["x.html"]


def judges_here() -> list[int]:
    """Return the judges that this process has."""
    children = [said_by(path).split() for path in Path("/proc/self/task").glob("*/children")]
    pids = [int(pid) for found in children for pid in found]
    return [pid for pid in pids if "grading.judge" in said_by(Path(f"/proc/{pid}/cmdline"))]


def said_by(path: Path) -> str:
    """Return what a file of /proc says; nothing where its process or thread is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


@SANDBOX
def test_an_interrupted_run_ends_its_judges_and_reports_nothing_half_done(
    sample_lab, tmp_path, inbox
) -> None:
    judges = Judges(sample_lab, tmp_path / "out", jobs=1)
    (tmp_path / "out").mkdir()
    # More than any judge has done by the time that the first is taken note of and the rest stopped.
    items = [Item(inbox / "ada" / "lab.ipynb", str(number)) for number in range(2000)]
    running = judges.grade(items)
    next(running)
    assert len(judges_here()) == 1
    running.close()
    assert judges_here() == []
    written = sorted((tmp_path / "out").glob("*.json"))
    assert 1 <= len(written) < len(items)
    assert all(json.loads(path.read_text())["error"] == "" for path in written)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["grade", "nowhere", "x.ipynb", "-o", "OUT"], "lab: nowhere: no such directory."),
        (["check", "nowhere", "x.ipynb"], "has neither lab.json nor lab.py"),
        (["check", "LAB", "nowhere.ipynb"], "cannot read nowhere.ipynb: No such file"),
        (["check", "LAB", "LAB/lab.py"], "not JSON"),
        (["release", "nowhere", "-o", "OUT"], "labs: nowhere: no such directory."),
        (["audit", "nowhere"], "lab: nowhere: no such directory."),
        (["grade", "LAB", "x.ipynb", "-o", "LAB/lab.py"], "cannot write to"),
    ],
)
def test_what_cannot_be_done_is_said_without_a_traceback(
    arguments, says, sample_directory, tmp_path, capsys
) -> None:
    replaced = [
        a.replace("LAB", str(sample_directory)).replace("OUT", str(tmp_path)) for a in arguments
    ]
    assert main(replaced) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
    assert captured.err.startswith("autograder: ")


@pytest.mark.parametrize(
    "option",
    [
        ["--jobs", "0"],
        ["--jobs", "many"],
        ["--timeout-s", "-1"],
        ["--timeout-s", "1e300"],
        ["-o", ""],
    ],
)
def test_options_out_of_range_are_refused(option, sample_directory, tmp_path, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["grade", str(sample_directory), "x", "-o", str(tmp_path), *option])
    assert caught.value.code == 2
    assert "expected" in capsys.readouterr().err


def test_release_writes_notebooks_and_says_what_is_stale(lab_copy, tmp_path, capsys) -> None:
    directory = lab_copy()
    out = tmp_path / "released"
    assert main(["release", str(directory.parent), "-o", str(out), "--solutions"]) == 0
    assert sorted(p.name for p in (out / "copied_lab").iterdir()) == [
        "checks.py",
        "lab.ipynb",
        "lab.json",
        "solution.ipynb",
    ]
    assert main(["release", "--check", str(directory)]) == 1
    assert "copied_lab: lab.ipynb is stale" in capsys.readouterr().out
    assert main(["release", "--in-place", str(directory)]) == 0
    assert main(["release", "--check", str(directory)]) == 0


def test_a_refused_release_says_why_and_exits_2(lab_copy, tmp_path, capsys) -> None:
    directory = lab_copy(lab=[("return x * factor", "return x")])
    assert main(["release", str(directory), "-o", str(tmp_path / "out")]) == 2
    assert "refused, nothing was written" in capsys.readouterr().err


def test_audit_prints_json(sample_directory, capsys) -> None:
    assert main(["audit", str(sample_directory), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mutants"] == found["killed"] >= 8
    assert found["survivors"] == []


def test_paths_have_stems_of_their_own(tmp_path: Path) -> None:
    for name in ("a/x.ipynb", "b/x.ipynb", "c/b-x.ipynb", "b/X.ipynb", "b/.hidden/y.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    found = items_of([tmp_path / "a", tmp_path / "b", tmp_path / "c", tmp_path / "a" / "x.ipynb"])
    assert [item.stem for item in found] == ["x", "X", "b-x", "c-b-x"]
    long = items_of([Path("n" * 250 + ".ipynb"), tmp_path / ".ipynb", tmp_path / "..ipynb"])
    assert all(0 < len(os.fsencode(item.stem)) <= 200 for item in long)
    assert all("/" not in item.stem for item in long)


@pytest.mark.parametrize("name", ["a.b.ipynb", "ends..ipynb", ".hidden.ipynb", "ü x.ipynb", "none"])
def test_a_report_is_called_as_its_submission_is(name: str, tmp_path: Path) -> None:
    (item,) = items_of([tmp_path / name])
    assert item.stem == Path(name).stem


def test_a_folder_a_learner_gives_names_that_stay_when_another_comes(tmp_path: Path) -> None:
    def names() -> dict[str, str]:
        return {item.label: item.stem for item in items_of([tmp_path])}

    for name in ("bob", "cy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lab.ipynb").touch()
    before = names()
    assert before == {"bob/lab.ipynb": "bob-lab", "cy/lab.ipynb": "cy-lab"}
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "lab.ipynb").touch()
    assert names() == {"ada/lab.ipynb": "ada-lab", **before}


def test_a_link_in_a_folder_is_not_followed_and_one_that_is_named_is(tmp_path: Path) -> None:
    solution, folder = tmp_path / "solution.ipynb", tmp_path / "inbox" / "mallory"
    solution.write_bytes(b"{}")
    folder.mkdir(parents=True)
    (folder / "lab.ipynb").symlink_to(solution)
    (item,) = items_of([folder])
    with pytest.raises(SubmissionError, match="link"):
        content_of(item.path)
    (named,) = items_of([folder / "lab.ipynb"])
    assert content_of(named.path) == b"{}"
    assert named.stem == "lab"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom autograder.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'torch', 'nbformat', 'jinja2', 'fastapi', 'sqlalchemy', 'IPython'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "grade" in done.stdout
