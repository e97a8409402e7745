"""Imports point down only: the allowed edges as a table, read off the sources' own syntax trees."""

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text()
OURS = {"minitorch", "ddp_lab", "autograder", "lessons", "labs"}

# package -> the packages of ours that it must never import
FORBIDDEN_PACKAGES = {
    "minitorch": OURS - {"minitorch"},
    "ddp_lab": OURS - {"ddp_lab"},
    "autograder": OURS - {"autograder"},
    "lessons": {"autograder", "labs"},
}

# what of minitorch belongs to tensors; above what backward needs of it
TENSORS = ("tensor", "conversions", "creation", "eager", "hub", "inplace")
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

# rooms of autograder.service, each above those before it; what else lies there is below them all
ROOMS = ("database", "records", "grading", "reports", "identity", "web", "running")
GROUND = ("settings", "errors", "times", "tokens", "periodic", "client")
# rooms of its records, likewise; `store` and `personal_data` are above them all
RECORDS = ("standings", "roster", "grades", "submissions", "marking", "terms")
SHARED_RECORDS = ("audit_log", "calendar", "csv_files", "marks", "outbox", "people", "rules")


def above(room: str) -> set[str]:
    return {f"autograder.service.{name}" for name in ROOMS[ROOMS.index(room) + 1 :]}


def records_above(room: str) -> set[str]:
    higher = RECORDS[RECORDS.index(room) + 1 :]
    return {f"autograder.service.records.{name}" for name in (*higher, "store", "personal_data")}


# prefix of a module -> prefixes of modules that it must never import
FORBIDDEN_MODULES = {
    "minitorch.errors": {"minitorch"},
    "minitorch.sweep": {"minitorch"},
    "minitorch.arrays": {f"minitorch.{above}" for above in ("op", "ops", "tensor", "graph")},
    "minitorch.op": {"minitorch.tensor", "minitorch.graph", "minitorch.nn", "minitorch.backward"},
    "minitorch.ops": {"minitorch.tensor", "minitorch.graph", "minitorch.nn", "minitorch.backward"},
    "minitorch.backward": {
        "minitorch.graph",
        "minitorch.nn",
        *(f"minitorch.tensor.{above}" for above in TENSORS),
    },
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
    **{f"autograder.service.{room}": above(room) for room in ROOMS},
    **{f"autograder.service.records.{room}": records_above(room) for room in RECORDS},
    **{
        f"autograder.service.records.{name}": {f"autograder.service.records.{r}" for r in RECORDS}
        for name in SHARED_RECORDS
    },
    **{
        f"autograder.service.{name}": {"autograder.service.database"} | above("database")
        for name in GROUND
    },
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


@functools.cache
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a source, which many tests read and none changes."""
    return ast.parse(text)


@functools.cache
def nodes_of(text: str) -> list[ast.AST]:
    """Return all nodes of the tree of a source."""
    return list(ast.walk(tree_of(text)))


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """Forget the trees afterwards: they are a million objects."""
    yield
    tree_of.cache_clear()
    nodes_of.cache_clear()


def imports(nodes: list[ast.AST], module: str, is_package: bool) -> Iterator[str]:
    """Yield every module that `nodes` import, relative ones resolved, `from p import m` as p.m."""
    yield from imports_by_string(nodes, module)
    for node in nodes:
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


def imports_by_string(nodes: list[ast.AST], module: str) -> Iterator[str]:
    """Yield every module that a tree of `nodes` may import by `import_module(name)`.

    Where a string is put together, from a table say, each string of the module may be its end.
    """
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.args]
    words = {"import_module", "__import__"}
    parts = [call.args[0] for call in calls if name_of(call.func) in words]
    texts = {n.value for n in nodes if isinstance(n, ast.Constant)} if parts else set()
    ends = {text for text in texts if isinstance(text, str) and re.fullmatch(r"\w+(\.\w+)*", text)}
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.JoinedStr):
            beginning = ast.unparse(part)[2:].partition("{")[0]
            if ast.unparse(part)[2:].startswith("{__name__}."):
                beginning = f"{module}."
            yield from (beginning + end for end in ends)
        else:
            yield from (end for end in ends if within(end, module.split(".")[0]))


def name_of(function: ast.expr) -> str:
    """Return the last name of what is called: `f` of `f()` and of `a.b.f()`."""
    return str(getattr(function, "attr", getattr(function, "id", "")))


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def crossings(text: str, module: str, is_package: bool = False) -> list[str]:
    """Return the forbidden imports of a module with this source."""
    package = module.split(".")[0]
    forbidden = set(FORBIDDEN_PACKAGES.get(package, ()))
    for prefix, banned in FORBIDDEN_MODULES.items():
        if within(module, prefix):
            forbidden |= banned
    found = imports(nodes_of(text), module, is_package)
    return sorted({n for n in found if any(within(n, f) for f in forbidden) and n != module})


@pytest.mark.parametrize("package", FORBIDDEN_PACKAGES)
def test_imports_point_down(package: str) -> None:
    wrong = {
        str(path.relative_to(ROOT)): bad
        for path in sources(package)
        if (bad := crossings(path.read_text(), module_name(path), path.name == "__init__.py"))
    }
    assert not wrong


def runs_only_in_checkers(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def nodes_as_run(text: str) -> list[ast.AST]:
    """Return the nodes of a source without those that only a type checker reads."""
    nodes = nodes_of(text)
    hidden = [part for node in nodes if runs_only_in_checkers(node) for part in node.body]
    unread = {id(node) for part in hidden for node in ast.walk(part)}
    return [node for node in nodes if id(node) not in unread]


def import_graph(texts: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Return what each module imports of the others: the module that a name comes from, alone.

    Args:
        texts: for each module its source, and whether it is a package.
    """
    found = {}
    for module, (text, is_package) in texts.items():
        names = set(imports(nodes_as_run(text), module, is_package))
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


@functools.cache
def edges_of(package: str) -> dict[str, set[str]]:
    """Return what each module of a package imports of the others."""
    texts = {
        module_name(path): (path.read_text(), path.name == "__init__.py")
        for path in sources(package)
    }
    return import_graph(texts)


@pytest.mark.parametrize("package", FORBIDDEN_PACKAGES)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    """Lazy imports inside functions are counted."""
    edges = edges_of(package)
    assert len(edges) > 20
    assert circles(edges) == []


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
    "by_string",
    [
        "def f():\n    return import_module('p.b').g",
        "OF = {'g': 'b'}\ndef f(name):\n    return importlib.import_module(f'p.{OF[name]}')",
        "OF = {'g': 'p.b'}\ndef f(name):\n    return import_module(OF[name])",
        "def f():\n    return __import__('p.b')",
    ],
)
def test_a_circle_is_found_through_an_import_by_a_string(by_string: str) -> None:
    texts = {"p": ("", True), "p.a": (by_string, False), "p.b": ("from p.a import f", False)}
    assert circles(import_graph(texts)) == [["p.a", "p.b"]]


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
        (
            "from autograder.service.records.store import Store",
            "autograder.service.database.schema",
        ),
        ("from autograder.service.web import page", "autograder.service.reports.exports"),
        ("from autograder.service.records import people", "autograder.service.tokens"),
        (
            "from autograder.service.records.terms import schedule",
            "autograder.service.records.roster.teams",
        ),
    ],
)
def test_a_forbidden_import_is_found(text: str, module: str) -> None:
    assert crossings(text, module)


def top_level_imports(text: str) -> set[str]:
    found = set()
    for node in tree_of(text).body:
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
        top = [n for n in tree_of(text).body if isinstance(n, ast.Import | ast.ImportFrom)]
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
    trees = [tree_of(text) for text in texts]
    words = {"Any"}.union(*map(aliases_of_any, trees))
    any_word = re.compile(rf"\b({'|'.join(sorted(words))})\b")
    found = [ast.unparse(annotation) for tree in trees for annotation in annotations(tree)]
    return sum(bool(any_word.search(text)) for text in found) / len(found)


def undocumented(trees: Iterable[ast.Module]) -> list[str]:
    """Return the public methods without a docstring that override none with one."""
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]

    def says(node: ast.ClassDef, method: str) -> bool:
        own = (part for part in node.body if isinstance(part, ast.FunctionDef))
        if any(part.name == method and ast.get_docstring(part) for part in own):
            return True
        bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
        if "Function" in bases:  # torch says what forward and backward are
            return True
        return any(says(other, method) for other in nodes if other.name in bases - {node.name})

    return [
        f"{node.name}.{method.name}"
        for node in nodes
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        if not node.name.startswith("_") and not method.name.startswith("_")
        if not says(node, method.name)
    ]


@pytest.mark.parametrize("package", ["ddp_lab", "minitorch"])
def test_every_public_method_says_what_it_does_or_its_base_does(package: str) -> None:
    assert undocumented(tree_of(path.read_text()) for path in sources(package)) == []


def test_a_public_method_that_neither_it_nor_its_base_explains_is_found() -> None:
    base = "class A:\n    def f(self):\n        'Return 1.'\n"
    other = "class B(p.A[int]):\n    def f(self): ...\n    def g(self): ...\n    def _h(self): ..."
    assert undocumented([ast.parse(base), ast.parse(other)]) == ["B.g"]


def test_few_annotations_of_minitorch_hold_any() -> None:
    share = share_of_any(path.read_text() for path in sources("minitorch"))
    assert share <= SHARE_OF_ANY, f"{share:.3f} of the annotations hold Any"


def test_any_is_found_inside_a_type_in_quotes_and_under_another_name() -> None:
    first = "Thing: TypeAlias = Any\ndef f(a: int, b: 'list[Any]') -> Thing: ..."
    second = "class C:\n    a: dict[str, Anything]\n    def g(self, *b: Thing) -> None: ..."
    assert share_of_any([first, second]) == 3 / 6


MOST_IN_A_ROOM = 25


def crowded(paths: Iterable[Path]) -> dict[str, int]:
    """Return the folders with too many modules, `__init__` not counted, and how many these are."""
    counts = Counter(str(p.parent.relative_to(ROOT)) for p in paths if p.name != "__init__.py")
    return {f: n for f, n in counts.items() if n > MOST_IN_A_ROOM}


def test_no_room_has_more_than_twenty_five_modules() -> None:
    assert crowded(path for package in FORBIDDEN_PACKAGES for path in sources(package)) == {}


def test_a_crowded_room_is_found() -> None:
    paths = [ROOT / "p" / f"m{i}.py" for i in range(26)]
    assert crowded([*paths[:25], ROOT / "p/__init__.py", ROOT / "p/q/m.py"]) == {}
    assert crowded(paths) == {"p": 26}


# what docs/architecture.md says of the tree

CHAIN = re.compile(r"`([\w.]+(?:, [\w.]+)* <- [^`]+)`")  # of modules, each above those to its left
STARTS = re.compile(r"\b(?:Popen|subprocess\.run|os\.fork)\(")


def climbs(chain: str, package: str, edges: dict[str, set[str]]) -> list[str]:
    """Return the imports that go up in a chain; a name stands for all inside it without its own."""
    levels = [re.findall(r"[\w.]+", level) for level in chain.split("<-")]
    level_of = {f"{package}.{name}": i for i, names in enumerate(levels) for name in names}

    def level(module: str) -> int | None:
        named = [name for name in level_of if within(module, name)]
        return level_of[max(named, key=len)] if named else None

    pairs = [(module, other) for module, others in edges.items() for other in others]
    known = [(m, o, level(m), level(o)) for m, o in pairs]
    return [f"{m} imports {o}" for m, o, a, b in known if a is not None and b is not None and a < b]


def test_the_chains_on_the_page_point_down_and_their_modules_are_there() -> None:
    edges = edges_of("minitorch")
    for chain, package in zip(CHAIN.findall(PAGE), ("minitorch", "minitorch.serve"), strict=True):
        listed = {f"{package}.{name}" for name in re.findall(r"[\w.]+", chain)}
        assert listed <= edges.keys(), listed - edges.keys()
        assert not climbs(chain, package, edges)


def test_an_import_that_goes_up_is_found() -> None:
    edges = {"p.a": {"p.b.c"}, "p.b.c": {"p.a"}, "p.d": {"p.a"}}
    assert climbs("a, d <- b", "p", edges) == ["p.a imports p.b.c"]
    assert climbs("a, d, b.c <- b", "p", edges) == []


def test_files_that_the_page_names_are_there() -> None:
    files = [str(path.relative_to(ROOT)) for path in ROOT.glob("[a-z]*/**/*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE))
    missing = {n for n in named if not any(f == n or f.endswith(f"/{n}") for f in files)}
    assert len(named) > 50 and not missing


@pytest.mark.parametrize("package", ["minitorch", "minitorch/graph", "ddp_lab", "autograder"])
def test_every_folder_of_a_package_is_in_its_table_on_the_page(package: str) -> None:
    table = PAGE.partition(f"| folder of `{package.rpartition('/')[2]}` |")[2].partition("\n\n")[0]
    folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert folders - set(re.findall(r"`(\w+)`", table)) == set()


def test_files_that_start_processes_are_named_on_the_page() -> None:
    section = PAGE.partition("### Processes")[2].partition("###")[0]
    named = re.findall(r"`([\w/]+(?:\.py|/))`", section)
    starting = {
        str(path.relative_to(ROOT))
        for package in ("minitorch", "ddp_lab", "autograder", "lessons")
        for path in sources(package)
        if STARTS.search(path.read_text())
    }
    assert {file for file in starting if not any(name in file for name in named)} == set()
    assert "autograder/sandbox/launch.py" in starting


# what a module says that it may import

SAID = re.compile(r"May import: (.*?)\.(?=\s|$)", re.DOTALL)
CALLED = {"NumPy": "numpy"}  # what sentences call a module that imports call otherwise
# the words of these sentences that stand for no module
PLAIN = set(
    re.findall(
        r"\w+",
        """
a and below but check comes folder for functions groups inside kit lazily library modules
module name nothing of once only ours over package picture processor rest s standard tensor the
there this through to types where
""",
    )
)


def said_wrongly(sentence: str, module: str, imported: set[str], package: set[str]) -> set[str]:
    """Return what a module imports and does not say, what it says and does not import, or is not.

    A word stands for a module, or for all in the folder of that name; "this folder" and "the
    package" are allowed too, and no word that stands for nothing. The standard library need not
    be named.

    Args:
        package: all modules of the module's package, and their folders.
    """
    plain = re.sub(r"\binside\s+functions\b", "", sentence)
    words = {CALLED.get(word, word) for word in re.findall(r"[\w.]+", plain)}
    top, folder = module.split(".")[0], module.rpartition(".")[0]
    others = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    unsaid = {name for name in others if not any(part in words for part in named_by(name))}
    if "this folder" in sentence:
        unsaid = {name for name in unsaid if not within(name, folder)}
    if "the package" in sentence:
        unsaid = {name for name in unsaid if not within(name, top)}
    used = {part for name in others for part in named_by(name)}
    return unsaid | words - used - PLAIN


def named_by(module: str) -> set[str]:
    """Return the words that stand for a module: `b`, `c` and `b.c` for p.b.c, `numpy` alone."""
    parts = module.split(".")[1:] or module.split(".")
    return {".".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}


def imported_by(text: str, module: str, is_package: bool, package: set[str]) -> set[str]:
    """Return the modules of the package that a module imports, and the top of all others."""
    names = set(imports(nodes_of(text), module, is_package))
    own = {name for name in names if name in package}
    inner = {name.rpartition(".")[0] for name in own}
    top = module.split(".")[0]
    return own - inner | {name.split(".")[0] for name in names if not within(name, top)}


@pytest.mark.parametrize(
    ("folder", "assumed"),
    [
        ("ddp_lab", {"distributed"}),  # by import_module, as llvmlite
        ("minitorch", {"numpy", "llvmlite"}),
        ("minitorch/serve", set()),
    ],
)
def test_what_modules_say_that_they_may_import_is_what_they_import(
    folder: str, assumed: set[str]
) -> None:
    known = {module_name(path) for path in sources(folder.partition("/")[0])}
    wrong = {}
    for path in sources(folder):
        text, module = path.read_text(), module_name(path)
        if said := SAID.search(ast.get_docstring(tree_of(text)) or ""):
            found = imported_by(text, module, path.name == "__init__.py", known)
            untrue = said_wrongly(said[1], module, found, known) - assumed
            wrong[str(path.relative_to(ROOT))] = untrue
    assert len(wrong) > 5
    assert {path: names for path, names in wrong.items() if names} == {}


def test_an_untrue_word_of_what_a_module_may_import_is_found() -> None:
    package = {"p", "p.a", "p.b", "p.b.c", "p.b.d"}
    imported = {"numpy", "re", "p.a", "p.b.c"}
    for right in ("NumPy, a, c", "NumPy, a, b", "NumPy, a, b.c", "NumPy, a, this folder"):
        assert said_wrongly(right, "p.b.d", imported, package) == set()
    assert said_wrongly("NumPy, a", "p.b.d", imported, package) == {"p.b.c"}
    assert said_wrongly("NumPy, torch, a, c", "p.b.d", imported, package) == {"torch"}
    assert said_wrongly("NumPy, a, c, torch_c", "p.b.d", imported, package) == {"torch_c"}
