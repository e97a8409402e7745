"""The names of `minitorch.graph` are those that its page lists, and each of them is there."""

import re
from pathlib import Path
from types import ModuleType

import minitorch.graph as tf

PAGE = Path(__file__).parents[3] / "docs" / "graph_names.md"
SPACES: dict[str, ModuleType] = {
    "": tf,
    "nn.": tf.nn,
    "nn.rnn_cell.": tf.nn.rnn_cell,
    "train.": tf.train,
}


def listed(page: str) -> list[str]:
    """Return the names in the second column of the page's table."""
    rows = [line.split("|") for line in page.splitlines() if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row[2])]


def test_the_table_is_the_public_surface() -> None:
    names = listed(PAGE.read_text())
    assert len(names) == len(set(names))
    public = {f"{space}{n}" for space, module in SPACES.items() for n in module.__all__}
    assert set(names) == public


def test_every_name_of_the_table_is_there() -> None:
    for space, module in SPACES.items():
        for name in module.__all__:
            assert getattr(module, name) is not None, f"{space}{name}"
            assert name in dir(module)


def test_the_names_are_some_two_hundred() -> None:
    assert 180 <= len(listed(PAGE.read_text())) <= 260
