"""`measured` is for seconds and counts that were taken; what a virtual clock gives is simulated."""

import ast
from collections.abc import Iterator

from autograder.authoring.source import solution_text
from autograder.records import Lab

VIRTUAL = {"simulate", "SimWorld", "run_on_clock", "osdi16"}
COUNTS = {"traffic", "messages_sent", "bytes_sent", "trace"}  # taken, whichever clock ran
# What was taken, though a name beside it is of a virtual clock, by what `compare` calls it.
COUNTED = {
    "GPipe, held by rank 0",
    "1F1B, held by rank 0",
    "all-reduces a block",
    "rounds, 200 ranks",
    "share of the model on a rank",
    "ms between tokens, median",  # of a model whose training was saved as a model says
    "the sweep's own share",
    "intra-operator, waits, ms",  # on the wall; one_f_one_b goes by a name that a clock had before
    "f'{name}: bytes of a rank, one step'",
    "f'yours, {n_bytes:,} bytes on {DEVICE}, µs'",  # timed; only its neighbours in zip are not
}


def names(node: ast.AST | None) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else set()


def is_virtual(node: ast.AST | None, virtual: set[str]) -> bool:
    """Tell whether an expression may be of a virtual clock; not where it is a count."""
    attributes = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)} if node else set()
    return bool(names(node) & virtual) and not attributes & COUNTS


def wrongly_measured(text: str) -> list[str]:
    """Return what `compare` calls the values that were not measured and are said to be."""
    virtual, wrong = set(VIRTUAL), list[str]()
    follow(ast.parse(text).body, virtual, wrong)
    return wrong


def follow(body: list[ast.stmt], virtual: set[str], wrong: list[str]) -> None:
    """Go through statements in order; `virtual` are the names that are of a virtual clock now."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            bind({statement.name}, bool(names(statement) & virtual), virtual)
        elif isinstance(statement, ast.Assign):
            targets = set().union(*map(names, statement.targets))
            bind(targets, is_virtual(statement.value, virtual), virtual)
        elif isinstance(statement, ast.For):
            bind(names(statement.target), is_virtual(statement.iter, virtual), virtual)
            follow(statement.body, virtual, wrong)
        elif isinstance(statement, ast.If | ast.With | ast.Try):
            follow(statement.body, virtual, wrong)
        elif isinstance(statement, ast.Expr):
            wrong += of_a_call(statement.value, virtual)


def bind(targets: set[str], are_virtual: bool, virtual: set[str]) -> None:
    if are_virtual:
        virtual |= targets
    else:
        virtual -= targets - VIRTUAL


def of_a_call(call: ast.expr, virtual: set[str]) -> Iterator[str]:
    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "compare":
        measured = call.args[2:3] + [k.value for k in call.keywords if k.arg == "measured"]
        if any(is_virtual(value, virtual) for value in measured):
            what = call.args[0]
            yield what.value if isinstance(what, ast.Constant) else ast.unparse(what)


def test_nothing_that_a_virtual_clock_gave_is_called_measured(lab: Lab) -> None:
    text = "\n".join(solution_text(c, lab.directory) for c in lab.cells if c.kind == "code")
    assert [what for what in wrongly_measured(text) if what not in COUNTED] == []


def test_a_virtual_time_that_is_called_measured_is_found() -> None:
    text = "step = simulate.pipeline('gpipe', 4, 8)\nidle = [step.bubble for _ in range(2)]\n"
    assert wrongly_measured(text + "compare('idle', 0.3, idle[0])") == ["idle"]
    assert wrongly_measured(text + "compare('idle', 0.3, simulated=idle[0])") == []
    assert wrongly_measured(text + "compare('time', 0.3, perf_counter() - began)") == []
