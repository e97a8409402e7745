"""Pictures put into a notebook's text."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autograder.authoring.notebook import learner_notebook
from autograder.authoring.source import load_lab
from autograder.errors import LabError
from autograder.formats.colab import LIMIT_BYTES, colab_notebook, data_uri, embed
from autograder.grading.grade import LabGrader

DOT = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
URI = "data:image/svg+xml;base64," + base64.b64encode(DOT).decode()


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "dot.svg").write_bytes(DOT)
    return folder


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![a dot](assets/dot.svg)", f"![a dot]({URI})"),
        ('![a dot](assets/dot.svg "a title")', f'![a dot]({URI} "a title")'),
        ("![](<assets/dot.svg>)", f"![](<{URI}>)"),
        (
            "![](./assets/../assets/dot.svg) twice ![](assets/dot.svg)",
            f"![]({URI}) twice ![]({URI})",
        ),
        ('<img width="9" src="assets/dot.svg" alt="">', f'<img width="9" src="{URI}" alt="">'),
        ("<img\n src='assets/dot.svg'>", f"<img\n src='{URI}'>"),
        ("[a link](assets/dot.svg)", "[a link](assets/dot.svg)"),
        ("![there](https://example.org/dot.svg)", "![there](https://example.org/dot.svg)"),
        ("![pasted](attachment:dot.png)", "![pasted](attachment:dot.png)"),
        (f"![in](data:image/png;base64,AA==) {URI}", f"![in](data:image/png;base64,AA==) {URI}"),
        ("$x![0]$ and a[i](j)", "$x![0]$ and a[i](j)"),
    ],
)
def test_a_picture_of_the_lab_stands_in_its_text(lab: Path, text: str, shown: str) -> None:
    assert embed(text, lab) == shown
    assert embed(embed(text, lab), lab) == shown


@pytest.mark.parametrize(
    "path", ["assets/gone.svg", "assets", "../secret.png", "assets/../../x.png"]
)
def test_a_picture_that_is_not_the_labs_is_refused(lab: Path, path: str) -> None:
    (lab.parent / "secret.png").write_bytes(b"secret")
    with pytest.raises(LabError, match="picture: there is none of that name: got"):
        embed(f"![x]({path})", lab)


def test_what_no_page_shows_and_what_is_too_large_is_refused(lab: Path) -> None:
    (lab / "assets" / "notes.txt").write_text("no picture")
    with pytest.raises(LabError, match=r"picture notes\.txt: got '\.txt', expected one of"):
        data_uri(lab / "assets" / "notes.txt")
    (lab / "assets" / "huge.png").write_bytes(bytes(LIMIT_BYTES + 1))
    with pytest.raises(LabError, match=r"huge\.png: too large for a notebook"):
        data_uri(lab / "assets" / "huge.png")


def test_pictures_in_a_colab_notebook_change_no_grade(
    lab_copy: Callable[..., Path], grader: LabGrader
) -> None:
    shown = ("# Why does the loss", "# ![a dot](assets/dot.svg)\n# Why does the loss")
    directory = lab_copy(lab=[shown])
    (directory / "assets").mkdir()
    (directory / "assets" / "dot.svg").write_bytes(DOT)
    lab = load_lab(directory)
    assert URI in colab_notebook(lab)
    assert URI not in learner_notebook(lab)
    cells = json.loads(colab_notebook(lab))["cells"]
    assert [cell["id"] for cell in cells[1:]] == [
        cell["id"] for cell in json.loads(learner_notebook(lab))["cells"]
    ]
    report = grader.grade(colab_notebook(lab).encode())
    assert {str(result.outcome) for result in report.results} == {"not attempted"}
    assert [answer.answer for answer in report.manual] == [
        answer.answer for answer in grader.grade(learner_notebook(lab).encode()).manual
    ]
