"""Answers that do nothing: NaN, zeros, the argument as it came, None, a constant, chance.

Whoever writes no line of the answer can write one of these, so none of them may earn a point. A
trivial answer keeps the signature of the solution and replaces the body of each function, and the
value of each variable, that learners have to write. A thief knows the solution and gives back what
equals its result and was in the process before: see `theft`.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

# of what a function gives back; {array} is its first argument that has a shape
RETURNS = {
    "None": "None",
    "NaN": "{array} * float('nan')",
    "zeros": "{array} * 0.0",
    "one": "1",
    "True": "True",
    "False": "False",
    "an empty list": "[]",
    "an input unchanged": "{array}",
    "the first argument": "{first}",
    "chance": "{array} * 0.0 + __import__('random').gauss(0.0, 1.0)",
}
THEFT = "theft"
STOLEN = "__import__('autograder.audit.theft', fromlist=['find_copy']).find_copy(lambda: {call})"
Function = ast.FunctionDef | ast.AsyncFunctionDef
VALUES = ("None", "float('nan')", "0", "1", "-1", "True", "False", "''", "[]")


@dataclass(frozen=True)
class TrivialAnswer:
    """The text of an answer's cell with nothing behind it; `kind` says what it gives back."""

    kind: str
    text: str


def trivial_answers(text: str, lines: frozenset[int]) -> Iterator[TrivialAnswer]:
    """Yield `text`, a solution, with what stands on `lines` (1-based) answered trivially.

    A variable whose solution is one of the trivial values, such as the answer to a question of
    yes or no, is not given that one. Code that does not parse has none.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    seen = {ast.unparse(tree)}
    values = ((f"the value {value}", value) for value in VALUES)
    kinds = [*RETURNS.items(), *values]
    for kind, value in kinds:
        copied = copy.deepcopy(tree)
        replace = _replace_functions if kind in RETURNS else _replace_variables
        replace(copied, value, lines)
        answer = ast.unparse(ast.fix_missing_locations(copied))
        if answer not in seen:
            seen.add(answer)
            yield TrivialAnswer(kind, answer)
    if _put_into_thieves(tree, lines):
        yield TrivialAnswer(THEFT, ast.unparse(ast.fix_missing_locations(tree)))


def _replace_functions(tree: ast.Module, value: str, lines: frozenset[int]) -> None:
    """Give the functions and methods on `lines` a body that returns `value`."""
    for node, method in _list_functions(tree, lines):
        node.body = _body(node, value, method=method)


def _list_functions(tree: ast.Module, lines: frozenset[int]) -> Iterator[tuple[Function, bool]]:
    """Yield the functions on `lines`, and whether each is a method."""
    for node in tree.body:
        method = isinstance(node, ast.ClassDef)
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and _on(inner, lines):
                yield inner, method


def _put_into_thieves(tree: ast.Module, lines: frozenset[int]) -> bool:
    """Put the functions on `lines` into thieves of the same name; return whether there are any.

    A thief has the solution inside, under its own name, so that it may call itself.
    """
    answers = list(_list_functions(tree, lines))
    for node, _ in answers:
        node.body = [ast.Pass()] if node.name == "__init__" else _thief(node)
    return any(node.name != "__init__" for node, _ in answers)


def _thief(function: Function) -> list[ast.stmt]:
    """Return a body that steals what the body of `function` would return."""
    solution = copy.deepcopy(function)
    solution.decorator_list, solution.args.defaults = [], []
    solution.args.kw_defaults = [None] * len(function.args.kwonlyargs)
    parameters = function.args
    passed = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    passed += [f"*{parameters.vararg.arg}"] if parameters.vararg else []
    passed += [f"{a.arg}={a.arg}" for a in parameters.kwonlyargs]
    passed += [f"**{parameters.kwarg.arg}"] if parameters.kwarg else []
    call = f"{function.name}({', '.join(passed)})"
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    text = STOLEN.format(call=f"list({call})" if yields else call)
    return [solution, *ast.parse(f"{'yield from' if yields else 'return'} {text}").body]


def _replace_variables(tree: ast.Module, value: str, lines: frozenset[int]) -> None:
    """Assign `value` to the variables on `lines`, unless that is what the solution assigns."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and _on(node, lines) and not _same(node.value, value):
            node.value = ast.parse(value, mode="eval").body


def _on(node: ast.stmt, lines: frozenset[int]) -> bool:
    return any(line in lines for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _body(function: Function, value: str, *, method: bool) -> list[ast.stmt]:
    parameters = function.args
    names = [a.arg for a in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)]
    if method and names and "staticmethod" not in map(ast.unparse, function.decorator_list):
        names = names[1:]
    if function.name == "__init__":
        return [ast.Pass()]
    listed = ", ".join(names + ([f"*{parameters.vararg.arg}"] if parameters.vararg else []))
    array = f"next((a for a in [{listed}] if hasattr(a, 'shape')), 0.0)"
    text = value.format(array=array, first=names[0] if names else "None")
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    return ast.parse(f"yield {text}" if yields else f"return {text}", mode="exec").body


def _same(node: ast.expr, value: str) -> bool:
    """Return whether an expression of numbers, texts and their operators has this value."""
    plain = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.List, ast.Tuple, ast.operator, ast.unaryop)
    if not all(isinstance(part, (*plain, ast.expr_context)) for part in ast.walk(node)):
        return False
    if any(isinstance(part, ast.Pow | ast.LShift) for part in ast.walk(node)):
        return False
    try:
        evaluated = eval(compile(ast.Expression(node), "<answer>", "eval"), {})
    except (ArithmeticError, TypeError, ValueError):
        return False
    return bool(evaluated == eval(value))
