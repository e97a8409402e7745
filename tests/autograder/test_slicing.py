"""What runs of a notebook, and what does not."""

import ast
import sys

import pytest

from autograder.authoring.check_names import learner_names
from autograder.authoring.magics import is_python, plain_python
from autograder.errors import SubmissionError
from autograder.grading.local_names import as_generators, free_names
from autograder.grading.slicing import (
    definitions,
    same_code,
    select_needed,
    statements_of,
)


def run(roots: str, *cells: str) -> list[str]:
    statements = statements_of([("code", text) for text in cells])
    return [s.text for s in select_needed(statements, roots.split())]


def test_only_what_an_answer_reads_is_run() -> None:
    found = run(
        "f",
        "import numpy as np\nimport matplotlib.pyplot as plt",
        "def helper(x):\n    return np.sum(x)",
        "def f(x):\n    return helper(x)",
        "plt.plot(f(data))\nloss = train(f)",
    )
    assert found == [
        "import numpy as np",
        "def helper(x):\n    return np.sum(x)",
        "def f(x):\n    return helper(x)",
    ]


def test_names_are_followed_through_class_bodies_defaults_and_decorators() -> None:
    found = run(
        "A",
        "b = 1\nc = 2\nd = 3\nz = 4",
        "@g(b)\nclass A(B):\n    x = c\n    def m(self, y=d): ...",
    )
    assert found[:-1] == ["b = 1", "c = 2", "d = 3"]


def test_a_local_name_does_not_pull_in_a_global_of_that_name() -> None:
    assert run("f", "x = train()", "def f(x):\n    y = x\n    return y") == [
        "def f(x):\n    y = x\n    return y"
    ]


def test_an_exception_that_is_caught_binds_no_name_for_other_statements() -> None:
    wanted = "try:\n    def f(): return 1\nexcept ImportError as error:\n    print(error)"
    other = "try:\n    train()\nexcept OSError as error:\n    print(error)"
    assert run("f", other, wanted) == [wanted]
    kept = "error = None\ntry:\n    train()\nexcept OSError as error:\n    why = str(error)"
    assert run("g", kept, "def g(): return error") == ["error = None", "def g(): return error"]
    after = "try:\n    def f(): return error\nexcept ImportError as error:\n    print(error)"
    assert run("f", "error = 1", after) == ["error = 1", after]


def test_the_variable_of_a_loop_pulls_in_no_other_loop_over_it() -> None:
    measured = "for m in counts:\n    measure(m)"
    filled = "for m in names:\n    views[m] = 'inter'"
    assert run("views", measured, "names = ['a']\nviews = {}", filled) == [
        "names = ['a']",
        "views = {}",
        filled,
    ]
    (loop,) = statements_of([("code", filled)])
    assert loop.statement.needs == ("names", "views")
    again = "for m in m:\n    views[m] = 1"
    assert run("views", measured, "views = {}", again) == [measured, "views = {}", again]
    nested = "for k in kinds:\n    for m in kinds[k]:\n        views[m] = k"
    assert measured not in run("views", measured, "views = {}", nested)
    for text in (
        "for m in names:\n    f(m)\nelse:\n    g(m)",
        "if m:\n    for m in a:\n        f(m)",
    ):
        assert "m" in statements_of([("code", text)])[0].reads


def test_statements_that_act_on_a_needed_name_run() -> None:
    cell = "table = {}\ntable['a'] = 1\ntable.update(b=2)\ntable.c = 3\nother['a'] = 1"
    found = run("f", cell, "def f(): return table")
    assert found == [
        "table = {}",
        "table['a'] = 1",
        "table.update(b=2)",
        "table.c = 3",
        "def f(): return table",
    ]


def test_decorated_functions_run_where_their_decorator_is_needed() -> None:
    cell = "rules = {}\ndef rule(f): rules[f.__name__] = f"
    cells = (cell, "@rule\ndef exp(g): ...", "@other\ndef log(g): ...", "def f(): return rule")
    assert "@rule\ndef exp(g): ..." in run("f", *cells)
    assert "@other\ndef log(g): ..." not in run("f", *cells)


def test_a_call_that_sets_a_needed_global_runs() -> None:
    cell = "def start():\n    global table\n    table = {}"
    found = run("f", cell, "start()", "other()", "def f(): return table")
    assert found == [cell, "start()", "def f(): return table"]


def test_a_setting_of_a_module_runs_and_a_plot_does_not() -> None:
    found = run(
        "f",
        "import torch",
        "torch.manual_seed(0)",
        "torch.save(f(train()), 'a')",
        "def f(): return torch",
    )
    assert found == ["import torch", "torch.manual_seed(0)", "def f(): return torch"]


def test_a_call_on_a_module_that_reads_the_learners_values_is_no_setting() -> None:
    found = run("f", "import mt", "x = 1", "SEED = 3", "mt.show(x)", "mt.seed(SEED)", "def f(): mt")
    assert found == ["import mt", "SEED = 3", "mt.seed(SEED)", "def f(): mt"]


def test_code_in_a_string_that_is_executed_needs_what_it_names() -> None:
    cells = ("import numpy as np", "loss = train()", "exec('def f(x): return np.sum(x)')\nf = f")
    assert "loss = train()" not in run("exec f", *cells)
    texts = {"import numpy as np", "loss = train()"}  # a lab's own, which need not run
    statements = statements_of([("code", cell) for cell in cells])
    assert len(select_needed(statements, ["f"], given=texts)) == 3
    documented = "exec('''def f(x):\\n    \"Has a loss.\"\\n    return np.sum(x)''')"
    statements = statements_of([("code", cell) for cell in (*cells[:2], documented)])
    found = [s.text for s in select_needed(statements, ["f"], given=texts)]
    assert found == [cells[0], documented]


def test_words_of_a_docstring_are_no_code_though_a_method_asks_for_vars() -> None:
    code = 'class Module:\n    """Has what a loss asks for."""\n    def a(self): return vars(self)'
    assert run("Module", "loss = train()", code) == [code]


def test_a_prediction_runs_no_measurement_unless_an_answer_reads_it() -> None:
    measured = "seconds, runs = measure()"
    cells = [
        measured,
        "ratio = (seconds[0] + len(runs)) / -runs",
        "shown = plot(4)",
        "def f(): return 1",
    ]
    statements = statements_of([("code", text) for text in cells])

    def whole(root: str) -> list[str]:
        return [found.text for found in select_needed(statements, [root], given={measured})]

    assert whole("f") == cells[1:]
    assert whole("ratio") == cells


CHECKS = """
def first(student, rng):
    student.call("f.g", "text")
    student.value("v")
    helper(student, "other")

def probe(x):
    return scale(np.sum(x))

def second(student, rng):
    def inner(y):
        return deep(y)
    student.probe(probe, x=1)
    student.ranks(inner, 2, [1, 2])
    student.ranks("ring", 2, [1, 2])
"""


def test_checks_ask_for_the_names_in_their_calls_and_in_what_they_send() -> None:
    names = learner_names(ast.parse(CHECKS))
    assert names == ({"f", "v", "ring", "scale", "np", "deep"}, set())


def test_a_name_that_is_not_written_in_the_call_may_be_any_text() -> None:
    _, words = learner_names(ast.parse(CHECKS + "def helper(s, name): s.call(name)"))
    assert words > {"other", "text"}


def test_a_star_import_runs_only_for_names_that_nothing_else_binds() -> None:
    assert "from math import *" in run("f", "from math import *", "def f(): return cos(1)")
    assert run("f", "from math import *", "cos = 1", "def f(): return cos") == [
        "cos = 1",
        "def f(): return cos",
    ]


def test_two_statements_on_a_line_are_two() -> None:
    assert run("b", "a = 1; b = 2 # two") == ["b = 2"]


def test_a_cell_that_is_no_python_fails_alone_and_binds_what_it_seems_to() -> None:
    cells = [("code", "def f(:\n    pass\ng = 1"), ("code", "h = 2")]
    broken, good = statements_of(cells)
    assert set(broken.statement.binds) == {"f", "g"}
    assert good.statement.binds == ("h",)


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!ls -l\nx = 1", "pass\nx = 1"),
        ("files = !ls\nx = 1", "pass\nx = 1"),
        ("x = 1\nx?", "x = 1\npass"),
        ("%time x = f(3)", "x = f(3)"),
        ("if a:\n    %cd ..\n    x = 1", "if a:\n    pass\n    x = 1"),
        ("%%time\nx = 1", "\nx = 1"),
        ("%%ranks 4\nx = 1", ""),
        ("%%bash\nrm -rf ~", ""),
        (">>> def f(x):\n...     return x\n>>> y = f(1)", "def f(x):\n    return x\ny = f(1)"),
        ("%%writefile m.py\nx = 1\n", "open('m.py', 'w', encoding='utf-8').write('x = 1\\n')"),
        ("x = 1\n%env A = b c", "x = 1\n__import__('os').environ['A'] = 'b c'"),
        ("%env\n%env A\n%run -i m.py", "pass\npass\npass"),
        ("x = 7 \\\n%2", "x = 7 \\\n%2"),
        ("!ls\nx = (7\n% 4\n/ 2)", "pass\nx = (7\n% 4\n/ 2)"),
        ("!ls\nx = 7 \\\n% 4", "pass\nx = 7 \\\n% 4"),
        ('!ls\nx = """(\n%cd\nwhy?\n"""\n%cd', 'pass\nx = """(\n%cd\nwhy?\n"""\npass'),
        ("!ls\nx = ')'  # (\n%cd\ny = '\\'('\n%cd", "pass\nx = ')'  # (\npass\ny = '\\'('\npass"),
        ("!pip install \\\n  numpy \\\n  scipy\nx = 1", "pass\n\n\nx = 1"),
        ("  def f():\n    pass\n  !ls", "def f():\n  pass\npass"),
        ("\n  x = 1\n\n  y = 2", "\nx = 1\n\ny = 2"),
    ],
)
def test_magics_are_taken_out_and_line_numbers_stay(cell: str, kept: str) -> None:
    assert plain_python(cell) == kept
    assert is_python(kept)


def test_a_top_level_await_is_python() -> None:
    assert run("x", "x = await f()") == ["x = await f()"]


def test_the_last_definition_counts() -> None:
    statements = statements_of([("code", "def f(): return 1"), ("code", "def f(): return 2")])
    assert definitions(statements)["f"] == "def f(): return 2"


def test_docstrings_and_layout_make_no_difference_and_code_does() -> None:
    assert same_code('def f(x):\n    "a"\n    return x', "def f( x ):\n\n    return x  # same")
    assert not same_code("def f(x):\n    return x", "def f(x):\n    return -x")
    assert not same_code("def f(:", "def f(x):\n    return x")


def test_free_names_are_the_globals_that_code_reads() -> None:
    assert free_names("def f(x):\n    y = g(x)\n    return [h(i) for i in y] + len(x)") == {
        "g",
        "h",
    }


# What a statement binds, what it reads as it runs, and what it or its functions ever read.
NAMES = {
    "y = [x for x in z]": ("y", "z", "z"),
    "y = {x for x in z if t}": ("y", "t z", "t z"),
    "y = {k: v for k, v in z.items()}": ("y", "z", "z"),
    "y = sum(x for x in z)": ("y", "z", "sum z"),
    "x = [x for x in x]": ("x", "x", "x"),
    "y = [[a * b for a in x] for x in z]": ("y", "b z", "b z"),
    "y = {k: {v: [w for w in v] for v in k} for k in z if [k for k in t]}": ("y", "t z", "t z"),
    "y = {lambda: k: lambda: v  # for w\n\t for k in z}": ("y", "z", "v z"),
    "y = {(k): (  # for\n'for')\\\nfor k in z}": ("y", "z", "z"),
    "é = ['é' for x in z]; y = {'é': k for k in é}": ("y", "é", "é"),
    "if any([(hit := x) > t for x in z]): pass": ("", "t z", "any hit t z"),
    "def f(n=[j for j in base]): return [j + q for j in n]": ("f", "base", "base q"),
    "@d([j for j in base])\ndef f(): pass": ("f", "base d", "base d"),
    "class A:\n    k = 2\n    rows = [k for _ in z]": ("A", "k z", "k z"),
    "async def f(): return [x async for x in z]": ("f", "", "z"),
    "y = [await x async for x in z]": ("y", "z", "z"),
    "f = lambda a: {b: c for b in a}": ("f", "", "c"),
}
if sys.version_info >= (3, 12):  # whose f-strings know where their parts are
    NAMES |= {
        "y = f'{[x for x in z]} {len({x: 1 for x in t})!r:>{w}}'": ("y", "t w z", "len t w z"),
        "class A[T: M](Base):\n    rows = [r for r in z]": ("A", "Base z", "Base M z"),
        "def f[T](x=[j for j in base]): return q": ("f", "base", "base q"),
        "type X = list[T]": ("X", "", "T list"),
        """y = f"{", ".join([f"{x["a"]}\\n" for x in z])}\"""": ("y", "z", "z"),
    }


@pytest.mark.parametrize("text", NAMES)
def test_the_variable_of_a_comprehension_is_no_name_of_its_statement(text: str) -> None:
    analysed = statements_of([("code", text)])[-1]
    own, needs, reads = (set(names.split()) for names in NAMES[text])
    assert set(analysed.statement.binds) == own
    assert set(analysed.statement.needs) == needs
    assert analysed.reads == reads


@pytest.mark.parametrize("text", NAMES)
def test_code_whose_comprehensions_are_generators_names_the_same(text: str) -> None:
    plain = as_generators(text)
    assert free_names(plain) == free_names(text)
    inside = compile(plain, "<code>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    kinds = ast.ListComp, ast.SetComp, ast.DictComp
    assert not [node for node in ast.walk(inside) if isinstance(node, kinds)]


def test_an_annotation_is_read_though_some_pythons_read_it_later() -> None:
    (analysed,) = statements_of([("code", "if t:\n    x: List[T] = y")])
    assert analysed.reads == {"List", "T", "t", "y"}
    assert {"t", "y"} <= set(analysed.statement.needs) <= analysed.reads


@pytest.mark.parametrize(
    "text",
    [
        " " * 400_000 + "x",
        "(\n" + "x:\n" * 100_000,
        "(\n" + "x" + "\n" * 400_000 + "y",
        "(\n" + "? " * 200_000,
        "(\n" + "a = " * 100_000 + "%time",
        "(\n" + "a , " * 100_000,
    ],
)
def test_no_text_takes_long_to_look_through(text: str) -> None:
    assert len(statements_of([("code", text)])) == 1


def test_the_number_of_statements_is_bounded() -> None:
    with pytest.raises(SubmissionError, match="more than 10000 statements"):
        statements_of([("code", "y = 2"), ("code", "x=1\n" * 10_000)])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5_000 + ")" * 5_000,
        "x = " + "-" * 50_000 + "1",
        "x = " + "+".join(["1"] * 50_000),
        "x = " + "a" + ".b" * 50_000,
        "if x:\n" + "\n".join(" " * i + "if x:" for i in range(1, 200)),
        "x = 1\0",
        "x = '\ud800'",
        "x = " + "9" * 10_000,
        "lambda: " * 3_000 + "1",
    ],
    ids=[
        "parentheses",
        "signs",
        "sum",
        "attributes",
        "ifs",
        "nul",
        "surrogate",
        "digits",
        "lambdas",
    ],
)
def test_code_that_is_hard_to_parse_makes_statements_all_the_same(text: str) -> None:
    cells = [("code", text.encode("utf-8", "replace").decode()), ("code", "y = 2")]
    assert statements_of(cells)[-1].statement.text == "y = 2"
    same_code(text, text + " ")


def elif_chain(length: int) -> str:
    return "if x == 0:\n    a = 0\n" + "".join(
        f"elif x == {i}:\n    table[{i}] = {i}\n" for i in range(1, length)
    )


def crowded() -> dict[str, list[str]]:
    """Notebooks within the caps of intake, each a way to make the judge's own work multiply."""
    names = [f"n{i}" for i in range(20_000)]
    listed = ", ".join(names)
    return {
        "elif chain": [elif_chain(300)],
        "blocks in blocks": ["\n".join(" " * i + "if x:" for i in range(90)) + " f = 1"],
        "one line": ["a = 1; " * 9_000 + "#" * 400_000],
        "many lines": ["a = 1\n" * 9_000 + "\n" * 400_000],
        "globals times calls": [
            f"def f():\n    global {listed}\n    {'='.join(names)} = 1",
            "f()\n" * 9_000,
        ],
        "stars times names": ["from m import *\n" * 9_000, f"def f():\n    return {listed}"],
        "modules times settings": [
            f"import {listed}",
            "if 1:\n" + "".join(f"    {name}.a = 1\n" for name in names),
        ],
    }


@pytest.mark.timeout(60)
@pytest.mark.parametrize("cells", crowded().values(), ids=crowded().keys())
def test_no_notebook_takes_longer_to_analyse_than_in_proportion_to_its_size(
    cells: list[str],
) -> None:
    assert run("f n1 table", *cells) is not None


def test_a_decorated_function_keeps_its_decorators_whatever_follows_it() -> None:
    assert run("f", "@d\ndef f(): return 1;\nx = 2") == ["@d\ndef f(): return 1;"]
    assert run("f", f"@d\ndef f(): return 1  # {'far ' * 100}") == ["@d\ndef f(): return 1"]


def test_statements_on_one_line_are_cut_where_they_end() -> None:
    assert run("a b c", "a = 'é'; b = (1,\n 2); c = 3") == ["a = 'é'", "b = (1,\n 2)", "c = 3"]


def test_an_elif_chain_acts_on_what_its_branches_act_on() -> None:
    assert run("table", "table = {}", elif_chain(3)) == ["table = {}", elif_chain(3).rstrip("\n")]


def test_a_global_that_a_function_only_adds_to_is_bound_before() -> None:
    cells = ["count = 0", "def f():\n    global count\n    count += 1\n    return count"]
    found = select_needed(statements_of([("code", text) for text in cells]), ["f"])
    assert [statement.text for statement in found] == cells
