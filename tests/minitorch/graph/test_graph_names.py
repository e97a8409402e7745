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


ROOT = PAGE.parents[1]
ALIAS = re.compile(
    r"import minitorch\.graph as (\w+)|(?<=from minitorch import )(graph)\b", re.MULTILINE
)


def names_of_graph(text: str) -> set[str]:
    """Return the names that a program takes from `minitorch.graph`, with those in its spaces."""
    aliases = {first or second for first, second in ALIAS.findall(text)} | {"minitorch.graph"}
    used = {n for a in aliases for n in re.findall(rf"(?<![\w.]){re.escape(a)}\.(\w+[\w.]*)", text)}
    return {".".join(name.split(".")[:i]) for name in used for i in (1, 2, 3)}


def programs_of(lab: str) -> str:
    """Return the sources of a lab, and of the lessons that its notebook imports."""
    (folder,) = (ROOT / "labs").glob(f"{lab}_*")
    own = "\n".join(path.read_text() for path in sorted(folder.glob("*.py")))
    lessons = set(re.findall(r"lessons\.([\w.]+)", own))
    files = [ROOT / "lessons" / f"{name.replace('.', '/')}.py" for name in lessons]
    return "\n".join([own, *(file.read_text() for file in files if file.exists())])


def labs_in(words: str) -> set[str]:
    """Return the labs of a list such as "labs 03 to 05 and 14"."""
    ranges = re.findall(r"(\d\d) to (\d\d)", words)
    between = {f"{n:02}" for a, b in ranges for n in range(int(a), int(b) + 1)}
    return set(re.findall(r"\b\d\d\b", words)) | between


def test_labs_that_the_table_names_use_a_name_of_the_row() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")][2:]
    wrong = [
        (row[1].strip(), lab)
        for row in rows
        for lab in labs_in(row[3])
        if not names_of_graph(programs_of(lab)) & set(re.findall(r"`([\w.]+)`", row[2]))
    ]
    assert wrong == []


def test_names_of_a_program_are_found() -> None:
    text = "import minitorch.graph as tf\nx = tf.nn.relu(tf.placeholder(y.tf.exp))"
    assert names_of_graph(text) == {"nn", "nn.relu", "placeholder"}
