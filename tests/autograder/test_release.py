"""Release: what learners get, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.landing import BEGIN, END, table, with_table
from autograder.authoring.manifest import load_released
from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.public_checks import counts, public_checks
from autograder.authoring.release import is_stale, release, write_in_place
from autograder.authoring.source import find_labs, load_lab
from autograder.checks import load_checks
from autograder.cli import main
from autograder.errors import LabError, ReleaseRefused
from autograder.records import Lab

SAMPLE = Path(__file__).parent / "sample_labs" / "scale_and_sum"
SOLUTIONS = ("x * factor", "total += row", "predicted_size = 3", "sum of squares", "SOLUTION")
HIDDEN = ("a_negative_factor_changes_the_sign", "secret_length", "-1.5")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the released folder of the sample lab, to read."""
    folder = tmp_path_factory.mktemp("released")
    release(load_lab(SAMPLE), folder, solutions=True, jobs=1)
    return folder / SAMPLE.name


def test_learners_get_no_solution_and_no_hidden_check(released: Path) -> None:
    assert sorted(p.name for p in released.iterdir()) == [
        "checks.py",
        "lab.ipynb",
        "lab.json",
        "solution.ipynb",
    ]
    for name in ("lab.ipynb", "checks.py", "lab.json"):
        text = (released / name).read_text()
        assert not [secret for secret in (*SOLUTIONS, *HIDDEN) if secret in text]
    assert "rubric" not in (released / "lab.json").read_text()


def test_notebooks_are_valid_and_have_no_outputs(released: Path) -> None:
    for name in ("lab.ipynb", "solution.ipynb"):
        found = nbformat.read(released / name, as_version=4)
        nbformat.validate(found)
        assert not [c for c in found.cells if c.cell_type == "code" and c.outputs]
        assert len({c.id for c in found.cells}) == len(found.cells)


def test_two_releases_are_the_same_bytes(sample_lab: Lab) -> None:
    assert learner_notebook(sample_lab) == learner_notebook(load_lab(sample_lab.directory))


def test_an_inserted_cell_changes_no_id_of_a_question(sample_lab: Lab, lab_copy) -> None:
    other = load_lab(lab_copy(lab=[("# ## Scaling", "# ## Scaling\n\n# %%\nprint(1)\n")]))

    def ids(lab: Lab) -> list[str]:
        cells = json.loads(learner_notebook(lab))["cells"]
        return [
            c["metadata"]["nbgrader"]["grade_id"] for c in cells if c["metadata"].get("nbgrader")
        ]

    assert ids(other) == ids(sample_lab)


def test_the_metadata_is_what_nbgrader_reads(sample_lab: Lab) -> None:
    cells = json.loads(solution_notebook(sample_lab))["cells"]
    found = [c["metadata"]["nbgrader"] for c in cells if "nbgrader" in c["metadata"]]
    assert {c["schema_version"] for c in found} == {3}
    assert sum(c.get("points", 0) for c in found) == 10
    assert len({c["grade_id"] for c in found}) == len(found)


def test_the_public_checks_run_without_the_hidden_ones(released: Path, sample_directory) -> None:
    every = load_checks(sample_directory / "checks.py")
    public = load_checks(released / "checks.py")
    assert [c.name for c in public.checks] == [c.name for c in every.checks if not c.hidden]
    assert public.settings == every.settings


def test_code_that_a_public_check_shares_with_a_hidden_one_stays() -> None:
    text = (
        "from autograder.checks import check\n\n# shared\nSIZE = 3\n\n# secret\nSECRET = 4\n\n\n"
        "def draw():\n    return SIZE\n\n\ndef secretly():\n    return draw() + SECRET\n\n\n"
        "@check('f')\ndef shown(student, rng):\n    draw()\n\n\n"
        "@check('f', hidden=True)\ndef veiled(student, rng):\n    secretly()\n"
    )
    found = public_checks(text, ["veiled"])
    assert "def draw" in found
    assert "SIZE = 3" in found
    assert not [w for w in ("veiled", "secret", "SECRET") if w in found]


def test_a_hidden_check_that_a_public_text_names_is_refused() -> None:
    text = '"""See veiled."""\n@check("f", hidden=True)\ndef veiled(student, rng): ...\n'
    with pytest.raises(LabError, match="veiled"):
        public_checks(text, ["veiled"])


def test_the_manifest_has_what_the_panel_needs(released: Path, sample_directory: Path) -> None:
    lab = load_released(released)
    assert lab.question("scale").hints[1] == "Multiply, do not add."
    assert lab.question("why_scale").manual
    assert not any(q.solution or q.rubric for q in lab.questions)
    source = load_released(sample_directory).questions  # whose hidden checks lie beside it
    assert source == tuple(replace(q, hidden_checks=0) for q in lab.questions)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lab": [("# predicted_size = ...", "# predicted_size = 3")]}, "the starter passes"),
        ({"lab": [("    ### BEGIN SOLUTION\n    return x *", "    return x *"),
                  ("factor\n    ### END SOLUTION", "factor")]}, "the starter passes every_element"),
        ({"lab": [("return x * factor", "return x * factor * 1.0005")]}, "the solution fails"),
        ({"lab": [("return x * factor", "import os; os._exit(0)")]}, "does not come to an end"),
        ({"lab": [("predicted_size = 3", "predicted_size = 3\nprint(")]}, "is no Python: mend it"),
        ({"wrong": [("return x + factor", "return x * factor")]}, "adds_instead is correct"),
        ({"wrong": [("return x + factor", "raise NotImplementedError")]}, "is not attempted by"),
        ({"wrong": [('says="first element"', 'says="second"')]}, "expected 'second' in it"),
        ({"checks": [('("predicted_size")', '("scale", weight=2)')],
          "wrong": [('question="predicted_size"', 'question="scale"')]},
         "question predicted_size has no check"),
        ({"checks": [("    close(got, 2.5", "    1 / 0\n    close(got, 2.5")]}, "ZeroDivision"),
    ],
)  # fmt: skip
def test_a_lab_that_contradicts_itself_is_refused_and_not_written(
    lab_copy, tmp_path: Path, changes: dict[str, list[tuple[str, str]]], says: str
) -> None:
    lab = load_lab(lab_copy(**changes))
    with pytest.raises(ReleaseRefused) as caught:
        release(lab, tmp_path / "out", jobs=1)
    assert says in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"checks": [('@check("sum_rows")', '@check("sum")')]}, "'sum' is no question"),
        ({"checks": [("def rows_are_added", "def one_element_for_each_column")]}, "two checks"),
        ({"checks": [("from autograder", "import no_such\nfrom autograder")]}, "does not run"),
        ({"wrong": [('check="rows_are_added"', 'check="rows"')]}, "no check of its question"),
    ],
)
def test_malformed_checks_are_an_error_that_says_where(lab_copy, tmp_path, changes, says) -> None:
    lab = load_lab(lab_copy(**changes))
    with pytest.raises(LabError, match=says):
        release(lab, tmp_path / "out", jobs=1)


ZIPPED = (
    "    close(got, x.sum(axis=0),",
    "    for a, b in zip(got, x.sum(axis=0)):\n        close(a, b,",
)


def test_a_check_that_pays_an_empty_list_is_refused_and_named(lab_copy, tmp_path: Path) -> None:
    lab = load_lab(lab_copy(checks=[ZIPPED]))
    with pytest.raises(ReleaseRefused) as caught:
        release(lab, tmp_path / "out", jobs=1)
    said = str(caught.value)
    assert "rows_are_added pays for nothing: sum_rows passes it by giving back an empty" in said
    assert "zip()" in said
    assert not (tmp_path / "out").exists()
    release(lab, tmp_path / "out", audited=False, jobs=1)
    assert (tmp_path / "out" / lab.name / "lab.ipynb").is_file()


def test_a_release_never_overwrites_its_own_source(lab_copy) -> None:
    directory = lab_copy()
    before = (directory / "checks.py").read_text()
    with pytest.raises(LabError, match="would be overwritten"):
        release(load_lab(directory), directory.parent)
    assert (directory / "checks.py").read_text() == before


def test_a_notebook_is_stale_until_it_is_written_and_when_the_source_changes(lab_copy) -> None:
    directory = lab_copy()
    assert is_stale(load_lab(directory))
    write_in_place(load_lab(directory))
    assert not is_stale(load_lab(directory))
    source = directory / "lab.py"
    source.write_text(source.read_text().replace("Scale and sum", "Sum and scale"))
    assert is_stale(load_lab(directory))


def test_the_manifest_counts_the_checks_that_run_at_submission_only(released: Path) -> None:
    questions = load_released(released).questions
    assert {q.name: q.hidden_checks for q in questions if not q.manual} == {
        "scale": 1,
        "predicted_size": 0,
        "sum_rows": 0,
    }


def test_checks_are_counted_as_they_load(sample_directory: Path, tmp_path: Path) -> None:
    own = tmp_path / "checks.py"
    own.write_text(
        "import functools\nfrom autograder.checks import check\n"
        "@check('f', weight=2.0)\ndef one(student, rng): ...\n"
        "@check('f', hidden=True, weight=1.0)\ndef two(student, rng): ...\n"
        "@check('f', hidden=False)\ndef three(student, rng): ...\n"
        "@functools.lru_cache(maxsize=1)\ndef helper(hidden=True): ...\n"
    )
    for path in (own, sample_directory / "checks.py"):
        hidden = [check.hidden for check in load_checks(path).checks]
        assert counts(path.read_text()) == (hidden.count(False), hidden.count(True))


TABLE = f"# Mine\n\n{BEGIN}\n{END}\n\nThe end.\n"


def test_the_table_of_labs_is_made_from_the_labs_that_are_there(lab_copy) -> None:
    first = '# %% [markdown] builds="two sums" needs="NumPy" audience="gpu optional"\n# # Scale'
    labs = lab_copy(lab=[("# %% [markdown]\n# # Scale", first)]).parent
    page = labs / "README.md"
    page.write_text(TABLE)
    assert main(["release", "--check", str(labs)]) == 1
    assert main(["release", "--in-place", str(labs)]) == 0
    rows = [line for line in page.read_text().splitlines() if line.startswith("| [")]
    assert len(rows) == len(find_labs(labs))
    assert "| two sums | NumPy | CPU; GPU if there, optional |" in rows[0]
    assert page.read_text().startswith("# Mine") and page.read_text().endswith("The end.\n")
    assert main(["release", "--check", str(labs)]) == 0


def test_a_page_without_a_place_for_the_table_is_left_alone(sample_lab: Lab) -> None:
    assert with_table("# Mine\n", [sample_lab]) == "# Mine\n"


def test_an_audience_that_nobody_knows_is_refused(lab_copy) -> None:
    first = '# %% [markdown] audience="everybody"\n# # Scale'
    lab = load_lab(lab_copy(lab=[("# %% [markdown]\n# # Scale", first)]))
    with pytest.raises(LabError, match="audience: got 'everybody', expected some of cpu"):
        table([lab])
