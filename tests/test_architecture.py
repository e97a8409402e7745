"""Imports point down only: the allowed edges as a table, read off the sources' own syntax trees."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"minitorch", "ddp_lab", "autograder", "lessons", "labs"}

# package -> the packages of ours that it must never import
FORBIDDEN_PACKAGES = {
    "minitorch": OURS - {"minitorch"},
    "ddp_lab": OURS - {"ddp_lab"},
    "autograder": OURS - {"autograder"},
    "lessons": {"autograder", "labs"},
}

# what of minitorch belongs to tensors
BESIDE_GRAPH = ("backward", "tensor", "nn", "optim", "data")
# folders of minitorch.graph, each above what it may import
ON_TOP = ("placement", "discovery", "models", "train")
ABOVE_MEMORY = ("executors.tokens", "costs", *ON_TOP)

ABOVE_COMMUNICATOR = (
    "launch",
    "costs",
    "simulate",
    "data_parallel",
    "parallel",
    "torch_backend",
)
ABOVE_GRADING = ("learner", "audit", "service", "cli")
ABOVE_SANDBOX = ("grading", "authoring", "formats", *ABOVE_GRADING)

# prefix of a module -> prefixes of modules that it must never import
FORBIDDEN_MODULES = {
    "minitorch.errors": {"minitorch"},
    "minitorch.sweep": {"minitorch"},
    "minitorch.shapes": {"minitorch.op", "minitorch.ops", "minitorch.tensor", "minitorch.graph"},
    "minitorch.op": {"minitorch.tensor", "minitorch.graph", "minitorch.nn", "minitorch.backward"},
    "minitorch.ops": {"minitorch.tensor", "minitorch.graph", "minitorch.nn", "minitorch.backward"},
    "minitorch.backward": {"minitorch.tensor", "minitorch.graph", "minitorch.nn"},
    "minitorch.graph": {f"minitorch.{beside}" for beside in BESIDE_GRAPH},
    "minitorch.graph.core": {f"minitorch.graph.{above}" for above in ("memory", *ABOVE_MEMORY)},
    "minitorch.graph.operators": {f"minitorch.graph.{above}" for above in ABOVE_MEMORY},
    "minitorch.graph.control": {f"minitorch.graph.{above}" for above in ("memory", *ABOVE_MEMORY)},
    "minitorch.graph.passes": {f"minitorch.graph.{above}" for above in ("executors", *ON_TOP)},
    "minitorch.graph.memory": {f"minitorch.graph.{above}" for above in ABOVE_MEMORY},
    "minitorch.graph.executors": {f"minitorch.graph.{above}" for above in ("costs", *ON_TOP)},
    "minitorch.graph.executors.tokens": {"minitorch.graph.passes"},
    "minitorch.graph.costs": {f"minitorch.graph.{above}" for above in ON_TOP[:3]},
    "minitorch.graph.placement": {f"minitorch.graph.{above}" for above in ON_TOP[1:]},
    "minitorch.serve.dispatch": {
        f"minitorch.serve.{above}" for above in ("containers", "server", "simulation", "http")
    },
    "minitorch.serve.server": {f"minitorch.serve.{above}" for above in ("http", "loading")},
    "minitorch.optim": {"minitorch.nn", "minitorch.graph", "minitorch.data"},
    "ddp_lab.errors": {"ddp_lab"},
    "ddp_lab.transport": {
        f"ddp_lab.{above}" for above in ("collectives", "communicator", *ABOVE_COMMUNICATOR)
    },
    "ddp_lab.collectives": {f"ddp_lab.{above}" for above in ABOVE_COMMUNICATOR},
    "ddp_lab.communicator": {f"ddp_lab.{above}" for above in ABOVE_COMMUNICATOR},
    "ddp_lab.launch": {f"ddp_lab.{above}" for above in ("costs", "data_parallel", "show")},
    "ddp_lab.costs": {f"ddp_lab.{above}" for above in ("data_parallel", "simulate", "show")},
    "autograder.errors": {"autograder"},
    "autograder.records": {f"autograder.{above}" for above in ("sandbox", *ABOVE_SANDBOX)},
    "autograder.student": {f"autograder.{above}" for above in ("sandbox", *ABOVE_SANDBOX)},
    "autograder.sandbox": {f"autograder.{above}" for above in ABOVE_SANDBOX},
    "autograder.grading": {f"autograder.{above}" for above in ABOVE_GRADING},
    "autograder.authoring": {f"autograder.{above}" for above in ("learner", "service", "cli")},
}

# third-party modules that may only be imported inside a function, and by which files at the top
LAZY = {
    "minitorch": {"torch", "cupy", "llvmlite", "triton", "sklearn", "IPython", "zmq"},
    "ddp_lab": {"cloudpickle", "IPython", "anywidget", "traitlets"},
    "autograder": {"nbformat", "jupytext", "sqlalchemy", "fastapi", "jinja2", "rich", "numpy"},
}


def sources(package: str) -> Iterator[Path]:
    return (ROOT / package).rglob("*.py")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Yield every module that `tree` imports, relative ones resolved, `from p import m` as p.m."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = module.split(".")
                up = up[: len(up) - node.level + is_package]
                base = ".".join([*up, base] if base else up)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def crossings(text: str, module: str, is_package: bool = False) -> list[str]:
    """Return the forbidden imports of a module with this source."""
    package = module.split(".")[0]
    forbidden = set(FORBIDDEN_PACKAGES.get(package, ()))
    for prefix, banned in FORBIDDEN_MODULES.items():
        if within(module, prefix):
            forbidden |= banned
    found = imports(ast.parse(text), module, is_package)
    return sorted({n for n in found if any(within(n, f) for f in forbidden) and n != module})


@pytest.mark.parametrize("package", FORBIDDEN_PACKAGES)
def test_imports_point_down(package: str) -> None:
    wrong = {
        str(path.relative_to(ROOT)): bad
        for path in sources(package)
        if (bad := crossings(path.read_text(), module_name(path), path.name == "__init__.py"))
    }
    assert not wrong


def runs_only_in_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


class AsRun(ast.NodeTransformer):
    """Leaves out what only a type checker reads."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        return node.orelse if runs_only_in_checkers(node) else self.generic_visit(node)


def import_graph(texts: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Return what each module imports of the others: the module that a name comes from, alone.

    Args:
        texts: for each module its source, and whether it is a package.
    """
    found = {}
    for module, (text, is_package) in texts.items():
        names = set(imports(AsRun().visit(ast.parse(text)), module, is_package))
        inner = {name.rpartition(".")[0] for name in names if name in texts}
        found[module] = {name for name in names if name in texts and name not in inner} - {module}
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, directly or not; Tarjan, 1972."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        open_.append(module)
        for other in sorted(edges[module]):
            if other not in number:
                visit(other)
            if other in open_:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            at = open_.index(module)
            found.append(sorted(open_[at:]))
            del open_[at:]

    for module in edges:
        if module not in number:
            visit(module)
    return [circle for circle in found if len(circle) > 1]


@pytest.mark.parametrize("package", FORBIDDEN_PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    """Lazy imports inside functions are counted."""
    texts = {
        module_name(path): (path.read_text(), path.name == "__init__.py")
        for path in sources(package)
    }
    assert len(texts) > 20
    assert circles(import_graph(texts)) == []


def test_a_circle_is_found_through_a_lazy_import_and_not_through_a_checkers() -> None:
    texts = {
        "p": ("from p.a import f", True),
        "p.a": ("def f():\n    from .b import g", False),
        "p.b": ("from . import c", False),
        "p.c": ("import p.a", False),
        "p.d": ("if TYPE_CHECKING:\n    from p.e import h", False),
        "p.e": ("from p.d import k", False),
    }
    assert circles(import_graph(texts)) == [["p.a", "p.b", "p.c"]]


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("import ddp_lab", "minitorch.nn.linear"),
        ("def f():\n    from lessons import timing", "ddp_lab.launch.launcher"),
        ("from autograder import compare", "lessons.timing"),
        ("from ..tensor import Tensor", "minitorch.ops.linalg"),
        ("def f():\n    from minitorch import tensor", "minitorch.op"),
        ("import autograder.grading.grade", "autograder.sandbox.host"),
        ("from ..placement.place import place", "minitorch.graph.passes.fold"),
    ],
)
def test_a_forbidden_import_is_found(text: str, module: str) -> None:
    assert crossings(text, module)


def top_level_imports(text: str) -> set[str]:
    tree = ast.parse(text)
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("package", LAZY)
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    """What `import package` pulls in at the top, followed through our own modules."""
    loaded: dict[str, set[str]] = {}
    waiting = [package]
    while waiting:
        module = waiting.pop()
        path = ROOT / module.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if module in loaded or not file.exists():
            continue
        text = file.read_text()
        loaded[module] = top_level_imports(text) & LAZY[package]
        body = ast.Module([n for n in ast.parse(text).body if isinstance(n, ast.stmt)], [])
        top = ast.Module(
            [n for n in body.body if isinstance(n, ast.Import | ast.ImportFrom)], type_ignores=[]
        )
        waiting += [
            n for n in imports(top, module, file.name == "__init__.py") if n.startswith(package)
        ]
    heavy = {module: names for module, names in loaded.items() if names}
    assert not heavy


# of the annotations of minitorch (parameters, results, attributes). It may only fall.
SHARE_OF_ANY = 0.081


def aliases_of_any(tree: ast.Module) -> set[str]:
    """Return the names at the top of a module that are other words for Any."""
    pairs = [
        (node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    ]
    plain = [(target, value) for target, value in pairs if isinstance(value, ast.Name)]
    return {ast.unparse(target) for target, value in plain if value.id == "Any"}


def annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what stands behind each parameter, result and attribute that is annotated."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            if ast.unparse(node.annotation) != "TypeAlias":
                yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            all_ = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield from (arg.annotation for arg in all_ if arg and arg.annotation)
            if node.returns:
                yield node.returns


def share_of_any(texts: Iterable[str]) -> float:
    """Return the share of annotations that hold Any, or a name that is another word for it."""
    trees = [ast.parse(text) for text in texts]
    words = {"Any"}.union(*map(aliases_of_any, trees))
    any_word = re.compile(rf"\b({'|'.join(sorted(words))})\b")
    found = [ast.unparse(annotation) for tree in trees for annotation in annotations(tree)]
    return sum(bool(any_word.search(text)) for text in found) / len(found)


def test_few_annotations_of_minitorch_hold_any() -> None:
    share = share_of_any(path.read_text() for path in sources("minitorch"))
    assert share <= SHARE_OF_ANY, f"{share:.3f} of the annotations hold Any"


def test_any_is_found_inside_a_type_in_quotes_and_under_another_name() -> None:
    first = "Thing: TypeAlias = Any\ndef f(a: int, b: 'list[Any]') -> Thing: ..."
    second = "class C:\n    a: dict[str, Anything]\n    def g(self, *b: Thing) -> None: ..."
    assert share_of_any([first, second]) == 3 / 6
