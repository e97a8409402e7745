"""The lab source: cells, attributes, regions; jupytext as the oracle for the plain format."""

from pathlib import Path

import jupytext
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.authoring.regions import PLACEHOLDER, form_below, learner_text, solution_text
from autograder.authoring.source import cells_of, find_labs, load_lab, load_wrong_answers
from autograder.errors import SourceError, UnknownLab
from autograder.records import Cell, Lab, without_number

HERE = Path("lab.py")

PLAIN = [
    "# %%\nx = 1\n\n# %% [markdown]\n# # Title\n#\n# text with `code`\n\n# %%\ny = 2\n",
    "# %%\ndef f():\n    return 1\n\n\ndef g():\n    return 2\n\n\n# %%\nf()\n",
    '# %% [markdown]\n"""\n# Title\n\ntext\n"""\n\n# %%\nx = "# %% no marker"\n',
    "import os\n\n# %%\nx = 1\n",
    "# %% [markdown]\n# - a\n#   - b\n#\n#     code\n",
    "# %%\n# %matplotlib inline\nimport numpy\n",
    "# %%\n# %%time\nx = 1\n",
    "# %%\n\n# %%\nx = 1\n",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_percent_cells_are_those_of_jupytext(text: str) -> None:
    expected = jupytext.reads(text, fmt="py:percent").cells
    assert [(c.kind, c.text) for c in cells_of(text)] == [(c.cell_type, c.source) for c in expected]


def test_attributes_are_read_from_the_marker() -> None:
    (cell,) = cells_of('# %% question="f" points="2.5" tags="a b" hint1="say \\"hi\\"" \nx = 1\n')
    assert cell.attributes == {"question": "f", "points": "2.5", "tags": "a b", "hint1": 'say "hi"'}
    assert cell.tags == ("a", "b")


def test_the_tags_of_jupytext_are_understood() -> None:
    (cell,) = cells_of('# %% tags=["setup", "check"]\nx = 1\n')
    assert cell.tags == ("setup", "check")


def test_a_docstring_before_the_first_marker_is_no_cell() -> None:
    assert [c.text for c in cells_of('"""About this file."""\n\n# %%\nx = 1\n')] == ["x = 1"]


def code(text: str, **attributes: str) -> Cell:
    return Cell("code", text, {"question": "f", **attributes})


def test_a_solution_region_becomes_not_implemented_at_its_indent() -> None:
    cell = code("def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION")
    assert learner_text(cell, HERE) == 'def f(x):\n    raise NotImplementedError("f")'
    assert solution_text(cell, HERE) == "def f(x):\n    y = x\n    return y"


def test_a_starter_region_loses_its_comment_signs_and_replaces_the_solution() -> None:
    cell = code(
        "def f(x):\n    ### BEGIN STARTER\n    # y = ...\n    # return y\n    ### END STARTER\n"
        "    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION"
    )
    assert learner_text(cell, HERE) == "def f(x):\n    y = ...\n    return y"
    assert solution_text(cell, HERE) == "def f(x):\n    return x"


def test_a_manual_answer_follows_a_line_that_names_it() -> None:
    text = "Why?\n### BEGIN SOLUTION\nBecause.\n### END SOLUTION"
    cell = Cell("markdown", text, {"question": "why", "manual": "true"})
    assert "**Answer** (why):" in learner_text(cell, HERE)
    assert "Because." not in learner_text(cell, HERE)
    assert "**Answer** (why):\n\nBecause." in solution_text(cell, HERE)


FORM = "### BEGIN STARTER\n**Overview:**\n\n**Open questions:**\n### END STARTER"
WRITTEN = "### BEGIN SOLUTION\n**Overview:** a note.\n### END SOLUTION"


@pytest.mark.parametrize("text", [f"Read.\n{FORM}\n{WRITTEN}", f"Read.\n{WRITTEN}\n{FORM}"])
def test_a_starter_region_of_a_text_cell_is_a_form_below_the_answer_line(text: str) -> None:
    cell = Cell("markdown", text, {"question": "note", "manual": "true"})
    starter = learner_text(cell, HERE)
    assert form_below("note", starter) == "**Overview:**\n\n**Open questions:**"
    assert starter.count("**Answer**") == 1
    assert PLACEHOLDER not in starter
    solution = solution_text(cell, HERE)
    assert form_below("note", solution) == "**Overview:** a note."


lines = st.lists(st.sampled_from(["given", "    given", "", "# given", "x = '### no edge'"]))
regions = st.sampled_from(["SOLUTION", "STARTER", ""])


@given(st.lists(st.tuples(regions, st.sampled_from(["", "    "]), lines)))
def test_no_line_of_a_solution_is_left_and_no_other_line_is_lost(
    parts: list[tuple[str, str, list[str]]],
) -> None:
    text = []
    for number, (region, indent, inside) in enumerate(parts):
        if not region:
            text += inside
            continue
        word = "secret" if region == "SOLUTION" else "started"
        edges = [f"{indent}### {edge} {region}" for edge in ("BEGIN", "END")]
        text += [edges[0], f"{indent}# {word} {number}", *inside, edges[1]]
    cell = code("\n".join(text))
    learner, solved = learner_text(cell, HERE), solution_text(cell, HERE)
    assert "secret" not in learner
    assert "started" not in solved
    kinds = [region for region, _, _ in parts]
    assert solved.count("secret") == kinds.count("SOLUTION")
    assert learner.count("started") == kinds.count("STARTER")
    assert "### BEGIN" not in learner + solved
    outside = [line for region, _, inside in parts if not region for line in inside]
    for found in (learner, solved):
        remaining = iter(found.split("\n"))
        assert all(line in remaining for line in outside if line)


@pytest.mark.parametrize(
    "text",
    [
        "### BEGIN SOLUTION\nx = 1",
        "x = 1\n### END SOLUTION",
        "### BEGIN SOLUTION\n### BEGIN STARTER\n### END STARTER\n### END SOLUTION",
        "### BEGIN SOLUTION\n### END STARTER",
    ],
)
def test_a_region_that_is_not_closed_or_opened_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(SourceError, match=r"lab\.py:\d+: "):
        learner_text(code(text), HERE)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('points="4"', 'points="many"', "points: got 'many'"),
        ('points="4"', "", "points: got ''"),
        ('question="sum_rows"', 'question="scale"', "already stands at line"),
        ('question="scale"', 'question="not a name"', "expected a name"),
        ('hint1="Which axis goes away?"', 'hnt="x"', "got 'hnt'"),
        ('manual="true"', "", 'has manual="true"'),
        ('points="3"', "points=", "expected key="),
    ],
)
def test_a_malformed_question_is_refused_with_file_and_line(
    lab_copy, old: str, new: str, says: str
) -> None:
    directory = lab_copy(lab=[(old, new)])
    with pytest.raises(SourceError, match=r"lab\.py:\d+: ") as caught:
        load_lab(directory)
    assert says in str(caught.value)


def test_the_sample_lab_is_read_whole(sample_lab: Lab) -> None:
    assert sample_lab.title == "Scale and sum"
    names = [(q.name, q.points, q.manual) for q in sample_lab.questions]
    assert names == [
        ("scale", 4.0, False),
        ("predicted_size", 1.0, False),
        ("sum_rows", 3.0, False),
        ("why_scale", 2.0, True),
    ]
    assert sample_lab.questions[0].hints == ("What is the shape of x?", "Multiply, do not add.")


def test_a_lab_number_is_no_part_of_its_short_name(sample_lab: Lab) -> None:
    numbered = Lab("09_ring_all_reduce", "", sample_lab.directory, (), ())
    assert without_number(numbered.name) == "ring_all_reduce"
    assert without_number(sample_lab.name) == "scale_and_sum"


def test_a_directory_without_a_source_is_an_unknown_lab(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UnknownLab, match=r"Name a directory with lab\.py"):
            load_lab(path)
        with pytest.raises(UnknownLab, match="Name a lab"):
            find_labs(path)


def test_a_wrong_answer_without_what_it_says_is_refused(lab_copy) -> None:
    directory = lab_copy(wrong=[(' says="first element"', "")])
    with pytest.raises(SourceError, match="lacks says"):
        load_wrong_answers(directory)
