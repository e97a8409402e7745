"""What `lab` asks of the kernel of its notebook, in real sessions of IPython."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.learner.kernel import find_unwritten

SESSION = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
for cell in json.loads(sys.argv[1]):
    shell.run_cell(cell, store_history=True)
"""


def said(folder: Path, *cells: str) -> str:
    """Return what a learner reads who runs these cells."""
    command = [sys.executable, "-c", SESSION, json.dumps(cells)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout


LAB = 'from autograder import lab; q = lab("scale_and_sum")'
STARTER = 'def scale(x, factor):\n    raise NotImplementedError("scale")'

SCALED = "def scale(x, factor):\n    return x * factor\n"
SHIFTED = "def scale(x, factor):\n    return x + factor\n"


def test_a_cell_that_calls_the_unwritten_is_answered_in_one_line(released: Path) -> None:
    assert said(released, LAB, STARTER, "scale(1.0, 2.0)").splitlines() == [
        "○ scale is not written yet. Write it, run its cell, and run this one again."
    ]


def test_a_cell_that_needs_what_such_a_cell_makes_is_answered_in_one_line(released: Path) -> None:
    cells = (LAB, STARTER, "twice = scale(1.0, 2.0)\nhalf = 1", "more = twice + 1", "more", "half")
    lines = said(released, *cells, "nothing").splitlines()
    told = "comes from a cell above, which waits for scale. Write scale, and run that cell and this"
    assert lines[1] == f"○ twice {told} one again."
    assert [line.split(" comes")[0] for line in lines[2:4]] == ["○ more", "○ half"]
    assert "NameError: name 'nothing' is not defined" in lines[-1]


def test_a_list_that_such_a_cell_left_half_filled_counts_until_it_is_made_anew(
    released: Path,
) -> None:
    fill, use = "found = []\nfound.append(scale(1.0, 2.0))", "found[0] + 1"
    rank = "raise RuntimeError(\"rank 0 failed: NameError: name 'found' is not defined\")"
    out = said(released, LAB, STARTER, fill, use, rank, SCALED, fill, LAB, use, "found[1]")
    lines = [line for line in out.splitlines() if line]
    assert [line.split(" comes")[0] for line in lines[1:3]] == ["○ found", "○ found"]
    assert lines[3] == "Out[9]: 3.0"
    assert "IndexError" in lines[-1]


def test_what_a_starter_raises_may_be_the_name_of_the_question(released: Path) -> None:
    starter = "def other():\n    raise NotImplementedError('predicted_size')"
    assert said(released, LAB, starter, "other()").startswith("○ predicted_size is not written")


def test_other_errors_have_their_traceback(released: Path) -> None:
    out = said(released, LAB, "def other():\n    raise NotImplementedError('other')", "other()")
    assert "Traceback" in out and "other()" in out
    assert "ZeroDivisionError" in said(released, LAB, "1 / 0")


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (NotImplementedError("scale"), "scale"),
        (RuntimeError("rank 0 failed: NotImplementedError: scale\n  File ..."), "scale"),
        (
            RuntimeError(
                "NotImplementedError: scale\n then rank 1: lost; NotImplementedError: (0, )"
            ),
            "scale",
        ),
        (RuntimeError("then rank 1: rank 0 ended: NotImplementedError: scale."), "scale"),
        (NotImplementedError("another"), None),
        (RuntimeError("NotImplementedError: "), None),
        (ValueError("scale"), None),
    ],
)
def test_what_is_unwritten_is_found_in_a_ranks_error_too(
    error: Exception, name: str | None
) -> None:
    assert find_unwritten(error, {"scale"}) == name


def test_the_cause_counts(released: Path) -> None:
    error = RuntimeError("a step failed")
    error.__cause__ = NotImplementedError("scale")
    assert find_unwritten(error, {"scale"}) == "scale"


def test_libraries_that_were_loaded_before_and_after_have_one_thread(released: Path) -> None:
    seen = (
        "import os, threadpoolctl, torch\n"
        "print([pool['num_threads'] for pool in threadpoolctl.threadpool_info()])\n"
        "print(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])"
    )
    pools, rest = said(released, "import numpy", LAB, seen).splitlines()
    assert set(json.loads(pools)) == {1}
    assert rest == "1 1"


def test_a_running_notebook_follows_the_file_of_an_answer(released: Path) -> None:
    change = f"import pathlib; _ = pathlib.Path('answers/scale.py').write_text({SCALED!r})"
    cells = (
        LAB,
        SHIFTED,
        "q.edit('scale')",
        change,
        "scale(3, 2)",
        SHIFTED,
        "scale(4, 2)",
        LAB,
        "1",
    )
    out = said(released, *cells)
    assert "Out[5]: 6" in out and "Out[7]: 8" in out


def test_a_figure_is_html_that_follows_the_theme_beside_one_png_drawn_once(released: Path) -> None:
    cells = (
        "import os; os.environ['MPLBACKEND'] = 'module://matplotlib_inline.backend_inline'",
        LAB,
        "from matplotlib import pyplot as plt\nfig, ax = plt.subplots()\n_ = ax.set_title('a < b')",
        "drawn = []\n_ = fig.canvas.mpl_connect('draw_event', drawn.append)",
        "from IPython.core.pylabtools import print_figure\n_ = print_figure(fig)",
        "once = len(drawn)",
        "shown, _ = get_ipython().display_formatter.format(fig)",
        "print(sorted(shown), shown['image/png'] in shown['text/html'], len(drawn) == 2 * once)",
        "print('alt=\"a &lt; b\"' in shown['text/html'])",
        "%config InlineBackend.figure_formats = ['retina']",
        "sharp, sizes = get_ipython().display_formatter.format(fig)",
        "png = sharp['image/png']",
        "print(png in sharp['text/html'], len(png) > len(shown['image/png']))",
        "size = sizes['image/png']",
        "print(sorted(size), f'width=\"{size[\"width\"]}\"' in sharp['text/html'])",
        "%config InlineBackend.figure_formats = ['svg']",
        "print(sorted(get_ipython().display_formatter.format(fig)[0]))",
    )
    assert said(released, *cells).splitlines()[-5:] == [
        "['image/png', 'text/html', 'text/plain'] True True",
        "True",
        "True True",
        "['height', 'width'] True",
        "['image/svg+xml', 'text/plain']",
    ]
