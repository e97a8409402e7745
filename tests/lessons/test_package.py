"""The package's list of its modules says which labs take them, and there is nothing besides."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import lessons

ROOT = Path(__file__).parents[2]
PATHS = [path.relative_to(ROOT / "lessons") for path in (ROOT / "lessons").rglob("[a-z]*.py")]
MODULES = {
    ".".join(path.with_suffix("").parts): (ROOT / "lessons" / path).read_text() for path in PATHS
}
LABS = {path: path.read_text() for path in (ROOT / "labs").glob("[0-9]*/*.py")}
TAKEN = re.compile(r"(?:^\s*(?:from|import) |\")lessons\.([\w.]+)", re.MULTILINE)
ROW = re.compile(r"^    ([\w.]+) +((?:\d\d )+) +\w", re.MULTILINE)


def defined(text: str) -> set[str]:
    """Return the names of functions, classes and their public methods, and of constants."""
    body = ast.parse(text).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    found = [*body, *(member for node in classes for member in node.body)]
    functions = {n.name for n in found if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    targets = [target for n in body if isinstance(n, ast.Assign) for target in n.targets]
    names = functions | {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def test_each_module_is_listed_with_the_labs_that_take_it() -> None:
    taken = defaultdict(set)
    for path, text in LABS.items():
        for module in TAKEN.findall(text):
            taken[module].add(path.parent.name[:2])
    listed = {module: set(labs.split()) for module, labs in ROW.findall(lessons.__doc__ or "")}
    assert listed == dict(taken)
    assert listed.keys() == MODULES.keys()


def test_every_name_is_used_by_a_lab_or_by_another_piece_of_code_here() -> None:
    everything = "\n".join([*LABS.values(), *MODULES.values()])
    words = re.findall(r"\w+", everything)
    unused = {name for text in MODULES.values() for name in defined(text) if words.count(name) < 2}
    assert not unused
