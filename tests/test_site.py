"""The site: it builds without a warning, asks for nothing from outside, and no link is dead."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site_script() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("site_script", ROOT / "scripts" / "site.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.pop(0)
    return module


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/site.py", "--without-outputs", "-o", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(
            r'<(?:script|img|iframe|link)\b[^>]*(?:src|href)="(https?://[^"]*)', page.read_text()
        )
        assert not fetched, page
    assert "<math" in (tmp_path / "labs" / "01_gradients_by_hand.html").read_text()
    assert "Raises" in (tmp_path / "reference" / "tensors_and_operators.html").read_text()


def test_dead_links_are_found(site_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">right</a><a href="https://elsewhere.org/x">outside</a>'
        '<a href="b.html#there">no place</a><img src="c.png"><a href="#nowhere">in itself</a>'
    )
    assert sorted(site_script.broken_links(tmp_path)) == [
        "a.html: #nowhere: no such place in it",
        "a.html: b.html#there: no such place in it",
        "a.html: c.png is not there",
    ]


def test_a_sources_way_back_leads_to_where_the_reference_has_the_name(
    site_script: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "_modules").mkdir()
    (tmp_path / "reference.html").write_text('<dt id="lib.nn.relu"></dt><dt id="lib.exp"></dt>')
    back = '<a class="viewcode-back" href="../reference.html#{}">[docs]</a>'
    source = tmp_path / "_modules" / "ops.html"
    source.write_text(back.format("lib.exp") + back.format("lib.relu"))
    assert list(site_script.broken_links(tmp_path)) == [
        "_modules/ops.html: ../reference.html#lib.relu: no such place in it"
    ]
    site_script.mend_ways_back(tmp_path)
    assert list(site_script.broken_links(tmp_path)) == []
    assert source.read_text() == back.format("lib.exp") + back.format("lib.nn.relu")


def test_a_labs_page_has_the_stub_and_what_the_solution_printed(
    site_script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = site_script.load_lab(ROOT / "tests" / "autograder" / "sample_labs" / "scale_and_sum")
    printed = {"output_type": "stream", "name": "stdout", "text": "42"}
    widget = {"application/vnd.jupyter.widget-view+json": {}}
    drawn: dict[str, Any] = {"output_type": "display_data", "metadata": {}, "data": widget}
    ran = [{"outputs": [printed, drawn]} for _ in lab.cells]
    monkeypatch.setattr(site_script, "execute", lambda lab: ran)
    cells = site_script.lab_page(lab, run=True)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [printed] for cell in code)
    assert any("raise NotImplementedError" in "".join(cell["source"]) for cell in code)


DRAWS = """# %% [markdown]
# # A figure

# %%
import matplotlib.pyplot as plt

from autograder import lab

lab("figure")
plt.plot([1, 2])
plt.show()
"""


def test_a_sharp_figure_of_a_lab_is_on_its_page(site_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "figure").mkdir()
    (tmp_path / "figure" / "lab.py").write_text(DRAWS)
    (tmp_path / "figure" / "checks.py").write_text("")
    page = site_script.lab_page(site_script.load_lab(tmp_path / "figure"), run=True)
    (drawn,) = [o for cell in page["cells"] for o in cell.get("outputs", ()) if "data" in o]
    size = drawn["metadata"]["image/png"]
    assert f'width="{size["width"]}"' in drawn["data"]["text/html"]


def test_the_page_of_demos_has_each_once_in_the_order_of_the_labs(
    site_script: ModuleType, tmp_path: Path
) -> None:
    page = site_script.demos_page(tmp_path / "demos")
    shown = re.findall(r'src="demos/(\w+)\.html"', page)
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "labs/demos").glob("*/*.html"))
    labs = re.findall(r"\[Lab (\d\d)\]", page)
    assert len(labs) == len(shown) and labs == sorted(labs)
