"""Figures of matplotlib take the theme of the page: in JupyterLab, and wherever a page says one."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.pylabtools import print_figure
from numpy.typing import NDArray

from autograder.learner.kernel import ThemedFigures

from .conftest import change_theme

STYLE = Path(__file__).parents[2] / "labs" / "style.mplstyle"
LINES = """
fig, ax = plt.subplots()
for y in range(6):
    ax.axhline(y, color=f"C{y}", linestyle="-", linewidth=8)
ax.set(title="Six lines", xticks=[], yticks=[], ylim=(-0.5, 5.5))
"""
IN_A_LAB = f"""
import matplotlib.pyplot as plt
from autograder import lab
q = lab("scale_and_sum")
plt.style.use({str(STYLE)!r})
{LINES}
plt.show()
"""
WHITE, DARK = (255, 255, 255), (18, 18, 18)

pytestmark = pytest.mark.browser


def luminance(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative luminance, as WCAG has it, of (..., 3) values from 0 to 1."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))


def looked_at(image: Any) -> tuple[tuple[int, ...], list[float]]:
    """Return the paper's colour, and the contrast on it of all that is seen in mid-figure."""
    from matplotlib import pyplot as plt  # for which nobody else who collects all tests has a use

    image.wait_for()
    pixels = plt.imread(io.BytesIO(image.screenshot()))[..., :3].astype(np.float64)
    column = pixels[len(pixels) // 8 :, pixels.shape[1] // 2]  # below the title
    same = (column[1:] == column[:-1]).all(axis=1)
    colours = np.unique(column[1:][same], axis=0)  # what blends two is one pixel high
    seen, paper = luminance(colours), luminance(pixels[2, 2])
    contrast = (np.maximum(seen, paper) + 0.05) / (np.minimum(seen, paper) + 0.05)
    inks = contrast[contrast > 1.1]
    return tuple(np.round(pixels[2, 2] * 255).astype(int).tolist()), sorted(inks.tolist())


@pytest.fixture(scope="module")
def as_html() -> str:
    """Return the HTML of six lines in the house's style."""
    from matplotlib import pyplot as plt

    drawn: dict[str, Any] = {"plt": plt}
    with plt.style.context(STYLE):
        exec(LINES, drawn)
        formatters = DisplayFormatter().formatters
        printer = partial(print_figure, fmt="png", base64=True)
        formatters["image/png"].for_type(type(drawn["fig"]), printer)
        bundle, _ = ThemedFigures(formatters)(drawn["fig"])
    plt.close(drawn["fig"])
    assert bundle["image/png"] in bundle["text/html"]
    assert 'alt="Six lines"' in bundle["text/html"]
    return bundle["text/html"]


def test_jupyterlabs_theme_counts_and_not_the_systems(in_lab: Callable[..., Any]) -> None:
    _, page = in_lab([IN_A_LAB], theme="Light", color_scheme="dark")
    for paper in (WHITE, DARK):
        seen, inks = looked_at(page.locator("img.course-figure"))
        assert seen == paper
        assert len(inks) == 6 and inks[0] >= 4.5
        change_theme(page, "Dark")  # the figure that is there follows
        page.emulate_media(color_scheme="light")


@pytest.mark.parametrize(
    ("body", "system", "paper"),
    [
        ("<body>", "light", WHITE),
        ("<body>", "dark", DARK),
        ('<body data-theme="auto">', "dark", DARK),
        ('<body data-theme="light">', "dark", WHITE),
        ('<body data-theme="dark">', "light", DARK),
        ('<body class="vscode-dark">', "light", DARK),
        ('<body class="vscode-light">', "dark", WHITE),
        ('<body data-jp-theme-light="true">', "dark", WHITE),  # a static notebook
    ],
)
def test_a_page_that_says_its_theme_is_followed_and_else_the_system(
    body: str, system: str, paper: tuple[int, ...], as_html: str, sheet: Callable[..., Any]
) -> None:
    page = sheet("about:blank")
    page.emulate_media(color_scheme=system)
    page.set_content(f"<!doctype html><html>{body}{as_html}</body></html>")
    seen, inks = looked_at(page.locator("img.course-figure"))
    assert seen == paper
    assert len(inks) == 6 and inks[0] >= 4.5
