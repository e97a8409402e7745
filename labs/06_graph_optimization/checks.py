"""Checks of lab 06. Programs go in and come out as plain lists; the judge runs them itself."""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import LimitReached, StudentError

WITHHELD = (
    *(
        "minitorch.graph.passes.matmul_chain:cheapest",
        "minitorch.graph.memory.offsets:assign_offsets",
    ),
    "minitorch.graph.memory.offsets:_by_size",
)
LAB = LabSettings(wall_s=90.0, preload=("numpy",), withheld=WITHHELD)

COMMUTATIVE = ("add", "mul")
VIEWS = ("transpose", "slice")
ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "square": np.square,
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0),
    "positive": lambda a: np.greater(a, 0).astype(float),
    "matmul": np.matmul,
}


# ---- Programs of the judge


class Code:
    """A program on the judge's side: steps of (op, inputs, attr), and outputs."""

    def __init__(self):
        self.steps, self.outputs = [], []

    def emit(self, op, *inputs, attr=None):
        self.steps.append([op, list(inputs), attr])
        return len(self.steps) - 1

    def input(self, name, *shape):
        return self.emit("input", attr=(name, shape))

    def const(self, array):
        return self.emit("const", attr=np.atleast_2d(np.asarray(array, np.float32)))


def one_step(op, attr, arrays):
    if op == "const":
        return np.asarray(attr, float)
    if op == "sum":
        return np.sum(arrays[0], axis=attr, keepdims=True)
    if op == "transpose":
        return arrays[0].T
    if op == "slice":
        return arrays[0][:, attr[0] : attr[1]]
    if op == "concat":
        return np.concatenate(arrays, axis=1)
    if op == "fused":
        steps = []
        for part, operands in attr:
            steps.append(
                ARITHMETIC[part](*[arrays[k] if k >= 0 else steps[-1 - k] for k in operands])
            )
        return steps[-1]
    return ARITHMETIC[op](*arrays)


def evaluate(steps, outputs, feeds, noise):
    """Return the values of the outputs in float64; noise step k gives noise[k]."""
    values, drawn = [], 0
    for op, inputs, attr in steps:
        if op == "input":
            values.append(np.asarray(feeds[attr[0]], float))
        elif op == "noise":
            values.append(noise[drawn])
            drawn += 1
        else:
            values.append(one_step(op, attr, [values[i] for i in inputs]))
    return [values[i] for i in outputs]


def applied(name, steps, outputs):
    """Run a pass of the learner's on a program; runs beside the learner's code."""
    program = Program()
    for op, inputs, attr in steps:
        program.emit(op, *inputs, attr=attr)
    program.outputs = list(outputs)
    before = [(step.op, step.inputs) for step in program.steps]
    result = globals()[name](program)

    def as_int(number):  # np.sort and its kin give NumPy's integers, which are as good
        return number.item() if hasattr(number, "item") else number

    if not isinstance(result, Program):
        return type(result).__name__, [], True
    unchanged = before == [(step.op, step.inputs) for step in program.steps]
    unchanged = unchanged and program.outputs == list(outputs)
    plain = [[s.op, [as_int(j) for j in s.inputs], s.attr] for s in result.steps]
    return plain, [as_int(i) for i in result.outputs], unchanged


MISSING = {
    "dead_code": "A step was kept, and one that it reads was not. Whose inputs are needed too, and "
    "have you seen every user of a step before you come to the step?",
    "merge_matmuls": "At the place of the first product, is every right factor of the group there "
    "already?",
}  # what it mostly means when a pass looks for the place of a value that is not there


def rewritten(student, name, code):
    """Return (steps, outputs) after the learner's pass, once they are seen to be a program."""
    program = {"steps": code.steps, "outputs": code.outputs}
    try:
        steps, outputs, unchanged = student.probe(applied, name=name, **program)
    except StudentError as error:
        if error.type_name != "KeyError" or name not in MISSING:
            raise
        raise Feedback(f"{name} raised {str(error).rstrip('. ')}. {MISSING[name]}") from error
    if isinstance(steps, str):
        raise Feedback(f"{name} returned {steps}, expected a Program. Is the return still there?")
    if not unchanged:
        raise Feedback(
            f"{name} changed the program that it was given. It reads that one and writes a new one."
        )
    for i, (op, inputs, _) in enumerate(steps):
        for j in inputs:
            if not isinstance(j, int) or not 0 <= j < i:
                raise Feedback(
                    f"{name}: step %{i} = {op} of the new program reads %{j}, which does not come "
                    "before it. Are these numbers those of the old program, or of the new one?"
                )
    if len(outputs) != len(code.outputs) or not all(
        isinstance(i, int) and 0 <= i < len(steps) for i in outputs
    ):
        raise Feedback(
            f"{name}: the outputs of a program of {len(steps)} steps are {outputs}; there were "
            f"{len(code.outputs)} outputs before. What stands for them now?"
        )
    return steps, outputs


def same_values(student, name, code, rng, hint):
    """Raise Feedback unless the pass keeps the outputs' values; return (steps, outputs)."""
    steps, outputs = rewritten(student, name, code)
    feeds = {attr[0]: rng.normal(size=attr[1]) for op, _, attr in code.steps if op == "input"}
    drawn = [np.floor(2 * rng.random(attr[1])) for op, _, attr in code.steps if op == "noise"]
    if sum(op == "noise" for op, _, _ in steps) > len(drawn):
        raise Feedback(f"{name}: there is more noise in the program than before.")
    expected = evaluate(code.steps, code.outputs, feeds, drawn)
    try:
        got = evaluate(steps, outputs, feeds, drawn)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise Feedback(f"{name}: the new program cannot be run: {error}. {hint}") from error
    for k, (a, b) in enumerate(zip(got, expected, strict=True)):
        if np.shape(a) != np.shape(b):
            raise Feedback(
                f"{name}: output {k} of the new program has shape {np.shape(a)}, it was "
                f"{np.shape(b)}. {hint}"
            )
        close(
            a, b, called=f"{name}: output {k} of the new program", rtol=1e-4, atol=1e-5, hint=hint
        )
    return steps, outputs


def random_code(rng, length=14):
    """Return a program of elementwise steps, products, sums, slices and constants."""
    code = Code()
    shapes = {code.input("a", 3, 4): (3, 4), code.input("b", 3, 4): (3, 4)}
    shapes[code.const(rng.normal(size=(1, 4)))] = (1, 4)
    shapes[code.const(2.0)] = (1, 1)
    for _ in range(length):
        pick = [int(i) for i in rng.choice(list(shapes), 2)]
        op = str(rng.choice(["add", "sub", "mul", "neg", "tanh", "relu", "sum"]))
        if op in ("add", "sub", "mul"):
            i = code.emit(op, *pick)
            shapes[i] = np.broadcast_shapes(shapes[pick[0]], shapes[pick[1]])
        elif op == "sum":
            axis = int(rng.integers(2))
            i = code.emit(op, pick[0], attr=axis)
            rows, columns = shapes[pick[0]]
            shapes[i] = (1, columns) if axis == 0 else (rows, 1)
        else:
            i = code.emit(op, pick[0])
            shapes[i] = shapes[pick[0]]
    code.outputs = [len(code.steps) - 1, int(rng.integers(4, len(code.steps)))]
    return code


def lean_code(rng, length):
    """Return a random program without dead steps."""
    code, needed = random_code(rng, length), []
    waiting = list(code.outputs)
    while waiting:
        i = waiting.pop()
        if i not in needed:
            needed.append(i)
            waiting += code.steps[i][1]
    place, lean = {}, Code()
    for i in sorted(needed):
        op, inputs, attr = code.steps[i]
        place[i] = lean.emit(op, *[place[j] for j in inputs], attr=attr)
    lean.outputs = [place[i] for i in code.outputs]
    return lean


# ---- 1. dead_code, fold, cse


@check("dead_code", weight=2, requires="only_what_is_needed_is_left")
def the_outputs_are_what_they_were(student, rng):
    """the outputs have the same values, in the same order"""
    for _ in range(4):
        code = random_code(rng)
        same_values(student, "dead_code", code, rng, "Who are the inputs of each step now?")
    code = random_code(rng)
    code.outputs = [4, 4, len(code.steps) - 1, 0]
    same_values(student, "dead_code", code, rng, "An output may be given twice, or be an input.")


@check("dead_code", weight=2)
def only_what_is_needed_is_left(student, rng):
    """every step that is left is an output or is read by another one, and none is missing"""
    chain = Code()
    at = first = chain.input("a", 2, 2)
    for _ in range(5):
        at = chain.emit("tanh", at)
    chain.outputs = [chain.emit("neg", first)]
    chain.emit("noise", attr=(0.5, (2, 2)))
    for code in (chain, *(random_code(rng) for _ in range(4))):
        hint = "Who are the inputs of each step now?"
        steps, outputs = same_values(student, "dead_code", code, rng, hint)
        read = {j for _, inputs, _ in steps for j in inputs} | set(outputs)
        for i, (op, _, _) in enumerate(steps):
            if i not in read:
                raise Feedback(
                    f"dead_code left %{i} = {op}, which no step reads any more. A step that is "
                    "used only by a dead step is dead too: in which order do you look?"
                )
        rest = iter(op for op, _, _ in code.steps)
        if not all(op in rest for op, _, _ in steps):
            raise Feedback("dead_code changed the order of the steps. In which order were they?")


def lines_of_a_sweep(steps, outputs, allowed):
    """Return how many lines dead_code runs on a program; -1 is more than `allowed`."""
    import sys

    program = Program()
    for op, inputs, attr in steps:
        program.emit(op, *inputs, attr=attr)
    program.outputs, ran, before = list(outputs), 0, sys.gettrace()

    def count(frame, event, argument):
        nonlocal ran
        ran += event == "line"
        if ran > allowed:
            raise RuntimeError("too many lines")
        return count

    sys.settrace(count)
    try:
        dead_code(program)
    except RuntimeError:
        if ran <= allowed:
            raise
        return -1
    finally:
        sys.settrace(before)
    return ran


@check("dead_code", requires="only_what_is_needed_is_left")
def the_work_grows_with_the_steps(student, rng):
    """ten times as many steps take ten times as many lines of work, however many paths"""

    def lines_run(length, allowed):
        code = Code()
        alive = dead = code.input("a", 1, 1)
        for _ in range(length):
            alive, dead = code.emit("add", alive, alive), code.emit("tanh", dead)
        code.outputs = [alive]
        program = {"steps": code.steps, "outputs": code.outputs}
        ran = student.probe(lines_of_a_sweep, allowed=allowed, **program)
        if ran < 0:
            raise Feedback(
                f"dead_code of {len(code.steps)} steps, half of them dead, ran more than "
                f"{allowed:,} lines.",
                hint="How often do you come to one and the same step: along each path, or once "
                "for each dead one?",
            )
        return ran

    lines_run(300, 15 * lines_run(30, 10_000))


@check("dead_code", hidden=True, requires="only_what_is_needed_is_left", timeout_s=8)
def a_deep_program_is_no_problem(student, rng):
    """a chain of 5,000 steps is swept too"""
    code = Code()
    at = code.input("a", 1, 1)
    for _ in range(5000):
        at = code.emit("neg", at)
    code.outputs = [at]
    try:
        steps, _ = rewritten(student, "dead_code", code)
    except (StudentError, LimitReached) as error:
        raise Feedback(
            "a chain of 5,000 steps ended in an error or took too long.",
            hint="Recursion? Or a search through the whole list for each step?",
        ) from error
    if len(steps) != 5001:
        raise Feedback("a chain of 5,000 steps lost some.", hint="Every one of them is needed.")


def with_constants(rng):
    """Return a program with constants of constants."""
    code = Code()
    a = code.input("a", 2, 3)
    two, row = code.const(2.0), code.const(rng.normal(size=(1, 3)))
    scale = code.emit("mul", two, row)
    scale = code.emit("tanh", code.emit("add", scale, two))
    total = code.emit("sum", scale, attr=None)
    wide = code.emit("concat", scale, row)
    part = code.emit("slice", wide, attr=(1, 4))
    code.outputs = [code.emit("mul", code.emit("add", a, scale), total), code.emit("add", a, part)]
    return code


@contextmanager
def an_input_is_no_constant():
    """Turn the error of a learner who computes an input into words about it."""
    try:
        yield
    except StudentError as error:
        if error.type_name == "KeyError" and "input" in str(error):
            raise Feedback(
                "fold tried to compute an input. It has no inputs, so all of them are constants: "
                "what does all([]) give?"
            ) from error
        raise


def fold_of(student, code, rng):
    with an_input_is_no_constant():
        return same_values(student, "fold", code, rng, "Which arrays went into the constant?")


@check("fold", weight=2, requires="no_constant_work_is_left")
def folding_keeps_the_values(student, rng):
    """the outputs have the same values"""
    fold_of(student, with_constants(rng), rng)
    mixed = Code()
    row = mixed.const(rng.normal(size=(1, 3)))
    mixed.outputs = [mixed.emit("concat", row, row, mixed.input("a", 1, 2))]
    hint = "Are all three inputs of the concat constants?"
    with an_input_is_no_constant():
        try:
            same_values(student, "fold", mixed, rng, hint)
        except StudentError as error:
            said = str(error).rstrip(". ")
            raise Feedback(f"fold of a concat raised {said}.", hint=hint) from error
    for _ in range(4):
        fold_of(student, random_code(rng), rng)


@check("fold", weight=2)
def no_constant_work_is_left(student, rng):
    """no step whose inputs are all constants is left, however deep"""
    for code in (with_constants(rng), random_code(rng), random_code(rng, 30)):
        steps, _ = fold_of(student, code, rng)
        for i, (op, inputs, _) in enumerate(steps):
            if inputs and all(steps[j][0] == "const" for j in inputs):
                was = "of constants that were folded just before, " if i > 5 else ""
                raise Feedback(
                    f"fold left %{i} = {op}, {was}though all of its inputs are constants. "
                    "Did you look at the old steps, or at what stands for them now?"
                )


@check("fold", requires="no_constant_work_is_left")
def noise_and_inputs_are_no_constants(student, rng):
    """noise is drawn anew at each run, and inputs are fed"""
    code = Code()
    a = code.input("a", 2, 3)
    mask = code.emit("noise", attr=(0.5, (2, 3)))
    code.outputs = [code.emit("mul", a, mask), code.emit("neg", mask)]
    with an_input_is_no_constant():
        steps, _ = rewritten(student, "fold", code)
    if not any(op == "noise" for op, _, _ in steps):
        raise Feedback(
            "fold made a constant of noise: every run would drop out the same elements. It has no "
            "inputs, so all of them are constants: what does all([]) give?"
        )


@check("fold", requires="no_constant_work_is_left")
def a_product_with_an_input_stays(student, rng):
    """a product of an input and a constant stays, whatever the constant: the input may be infinite"""
    code = Code()
    zero, ones = code.const(0.0), code.const(np.ones((2, 3)))
    a, b = code.input("a", 2, 3), code.input("b", 1, 3)
    code.outputs = [code.emit("mul", a, zero), code.emit("mul", b, ones)]
    with an_input_is_no_constant():
        steps, _ = rewritten(student, "fold", code)
    left = sum(op == "mul" for op, _, _ in steps)
    if left != 2:
        raise Feedback(
            f"fold left {left} of 2 products of an input: with zero, and of a row with ones of two "
            "rows. What is infinity times 0, and which shape has the result?"
        )


def with_doubles(rng):
    """Return a program that computes several values more than once."""
    code = Code()
    a, b = code.input("a", 3, 4), code.input("b", 3, 4)
    row = rng.normal(size=(1, 4))
    c, d = code.const(row), code.const(row.copy())
    left = code.emit("tanh", code.emit("mul", code.emit("add", a, c), b))
    right = code.emit("tanh", code.emit("mul", b, code.emit("add", d, a)))
    difference = code.emit("add", code.emit("sub", a, b), code.emit("sub", b, a))
    sums = [code.emit("sum", left, attr=0), code.emit("sum", left, attr=1)]
    parts = [code.emit("slice", left, attr=(0, 2)), code.emit("slice", left, attr=(2, 4))]
    code.outputs = [code.emit("mul", left, right), difference, *sums, *parts]
    code.outputs.append(code.emit("mul", code.const([[1.0, 2.0]]), code.const([[1.0], [2.0]])))
    p, q = code.input("p", 3, 3), code.input("q", 3, 3)
    code.outputs += [code.emit("matmul", p, q), code.emit("matmul", q, p)]
    code.outputs += [code.emit("div", p, q), code.emit("div", q, p)]
    return code


def doubles_of_noise():
    """Return a program in which two values are made of one noise."""
    code = Code()
    a, mask = code.input("a", 3, 4), code.emit("noise", attr=(0.5, (3, 4)))
    code.outputs = [code.emit("mul", a, mask), code.emit("mul", mask, a)]
    return code


def nested_doubles():
    """Return a program in which a value of a value is computed twice."""
    code = Code()
    a = code.input("a", 3, 4)
    twice = [code.emit("neg", code.emit("tanh", code.emit("square", a))) for _ in range(2)]
    code.outputs = [code.emit("sub", *twice)]
    return code


@check("cse", weight=2, requires="no_value_is_computed_twice")
def sharing_keeps_the_values(student, rng):
    """the outputs have the same values"""
    hint = "Are the two steps that became one really equal: operator, inputs in order, attr?"
    same_values(student, "cse", with_doubles(rng), rng, hint)
    for _ in range(4):
        same_values(student, "cse", random_code(rng, 24), rng, hint)
    code, array = Code(), rng.normal(size=(1, 2000))
    code.outputs = [code.const(array), code.const(np.where(np.arange(2000) == 1000, 7, array))]
    hint = "The text of a long array leaves its middle out: str() of two may be equal. attr_key is not."
    same_values(student, "cse", code, rng, hint)


@check("cse", weight=3)
def no_value_is_computed_twice(student, rng):
    """no two steps with equal operator, attribute and inputs are left"""
    programs = nested_doubles(), with_doubles(rng), random_code(rng, 24), random_code(rng, 40)
    programs += (doubles_of_noise(),)
    for code in programs:
        steps, _ = rewritten(student, "cse", code)
        seen = {}
        for i, (op, inputs, attr) in enumerate(steps):
            if op == "noise":
                continue
            key = (attr.shape, attr.tobytes()) if isinstance(attr, np.ndarray) else attr
            exact = (op, tuple(inputs), key)
            if exact in seen:
                complaint = f"cse left %{seen[exact]} and %{i}, both {op}"
                if op == "const":
                    raise Feedback(
                        f"{complaint} of one array. What is the attribute of an equal step?"
                    )
                raise Feedback(
                    f"{complaint} of {inputs}. Their inputs may have become equal only now: whose "
                    "numbers are in your key?"
                )
            seen[exact] = i
            swapped = (op, tuple(reversed(inputs)), key)
            if op in COMMUTATIVE and seen.get(swapped, i) != i:
                raise Feedback(
                    f"cse left %{seen[swapped]} and %{i}, {op} of the same two values in the other "
                    "order. For which operators does the order not matter?"
                )


@check("cse", weight=2, requires="no_value_is_computed_twice")
def each_noise_is_its_own(student, rng):
    """two steps of noise stay two"""
    code = Code()
    a = code.input("a", 2, 3)
    masks = [code.emit("noise", attr=(0.5, (2, 3))) for _ in range(2)]
    code.outputs = [code.emit("mul", a, mask) for mask in masks]
    steps, _ = rewritten(student, "cse", code)
    many = sum(op == "noise" for op, _, _ in steps)
    if many != 2:
        raise Feedback(
            f"cse left {many} of 2 steps of noise: two layers would drop out the same elements. "
            "Is a random step the same value twice?"
        )


# ---- 2. chain_order


CHAINS = (
    ([512, 512, 512, 1], 524_288),
    ([10, 100, 5, 50], 7_500),
    ([30, 35, 15, 5, 10, 20, 25], 15_125),
    ([2, 7, 7, 1, 2], 67),
    ([4, 8, 5, 4, 4, 6], 400),
    ([1, 1, 9, 9, 3, 2, 3], 122),
    ([9, 6, 6, 3, 5], 405),
    ([4, 5, 6], 120),
    ([2, 3], 0),
    ([10_240, 10_240, 10_240, 20], 4_194_304_000),
)  # with the least number of multiplications; times k^3 when all sizes are times k


def falling(rng, count):
    """Return sizes that grow smaller, and the least work: everything is best done from the right."""
    sizes = sorted((int(n) for n in rng.choice(np.arange(1, 200), count, False)), reverse=True)
    return sizes, sizes[-1] * sum(a * b for a, b in pairwise(sizes[:-1]))


def chains(rng):
    """Return (sizes, least work) of some chains, all drawn anew."""
    k = int(rng.integers(1, 5))
    known = [([k * n for n in sizes], k**3 * work) for sizes, work in CHAINS]
    mirrored = [(sizes[::-1], work) for sizes, work in known]
    return [*known, *mirrored, falling(rng, 7), falling(rng, 9)]


def cost_of(tree, sizes):
    """Return (multiplications, leaves in order) of a tree."""
    if not isinstance(tree, tuple | list):
        return 0, [tree]
    if len(tree) != 2:
        raise Feedback(f"chain_order: {tree} is no pair. Two trees are multiplied at a time.")
    a, left = cost_of(tree[0], sizes)
    b, right = cost_of(tree[1], sizes)
    try:
        own = sizes[left[0]] * sizes[right[0]] * sizes[right[-1] + 1]
    except (IndexError, TypeError) as error:
        raise Feedback(f"chain_order: the tree {tree} holds a factor that is not there.") from error
    return a + b + own, left + right


TABLE = {
    "KeyError": "A piece that is asked for was never put into the table. Which lengths, which i "
    "and which k do your loops go through?",
    "ValueError": "Has each piece at least one cut? Between i and j, where may the last one be?",
    "TypeError": "Where two orders cost the same, min() of pairs compares the trees: what should "
    "it compare instead?",
}  # what it mostly means when a table of pieces ends in one of these


def ordered(student, sizes):
    """Return (multiplications, tree) of the learner's order."""
    try:
        answer = student.call("chain_order", list(sizes))
    except StudentError as error:
        signs = {"KeyError": "", "ValueError": "min()", "TypeError": "'<' not"}
        if signs.get(error.type_name, "?") not in str(error):
            raise
        hint = TABLE[error.type_name]
        raise Feedback(f"chain_order({list(sizes)}) raised {error}. {hint}") from error
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Feedback(
            f"chain_order({list(sizes)}) returned {answer!r}, expected (multiplications, tree)."
        )
    return answer


@check("chain_order", weight=2)
def the_least_work_is_found(student, rng):
    """the number of multiplications is the least that any order has"""
    for sizes, work in chains(rng):
        got, _ = ordered(student, sizes)
        if got != work:
            which = "more" if got > work else "fewer"
            raise Feedback(
                f"chain_order({sizes}) gave {got} multiplications, {which} than the best order "
                f"takes, {work}. Which last products are tried, and what does each cost?"
            )


@check("chain_order", weight=2, requires="the_least_work_is_found")
def the_tree_has_that_cost(student, rng):
    """the tree multiplies all factors in their order, at that cost"""
    draws = [[int(n) for n in rng.integers(1, 60, size=7)] for _ in range(6)]
    for sizes in (*(sizes for sizes, _ in CHAINS), *draws):
        got, tree = ordered(student, sizes)
        work, leaves = cost_of(tree, sizes)
        if leaves != list(range(len(sizes) - 1)):
            raise Feedback(
                f"chain_order({sizes}): the tree {tree} has the factors {leaves}. Matrices may be "
                "multiplied in another order, but not exchanged."
            )
        if work != got:
            raise Feedback(
                f"chain_order({sizes}): the tree {tree} takes {work} multiplications, the number "
                f"beside it is {got}. Do both come from the same cut?"
            )


@check("chain_order", requires="the_least_work_is_found")
def each_piece_is_solved_once(student, rng):
    """50 factors are ordered at once, since each piece is solved once"""

    def only_the_work(sizes):
        class Counted(list):
            asked = 0

            def __getitem__(self, k):
                Counted.asked += 1
                if Counted.asked > 1_000_000:
                    raise RuntimeError("sizes were read a million times")
                return list.__getitem__(self, k)

        given = Counted(sizes)
        return chain_order(given)[0], list(given)

    sizes, work = falling(rng, 51)
    try:
        got, after = student.probe(only_the_work, sizes=sizes)
    except StudentError as error:
        if "a million times" not in str(error):
            raise
        raise Feedback(
            "chain_order of 50 factors looked at the sizes a million times and was not done. How "
            "often is one and the same piece (i, j) solved in your code?"
        ) from error
    if got != work:
        raise Feedback("chain_order of 50 factors did not find the least work. Try 9.")
    if after != sizes:
        raise Feedback("chain_order changed the list of sizes. Whose is it, afterwards?")


def least(sizes):
    """Return the least multiplications of a chain."""
    known = {}

    def piece(i, j):
        if j - i < 2:
            return 0
        if (i, j) not in known:
            cuts = range(i + 1, j)
            ways = [piece(i, k) + piece(k, j) + sizes[i] * sizes[k] * sizes[j] for k in cuts]
            known[i, j] = min(ways)
        return known[i, j]

    return piece(0, len(sizes) - 1)


@check("chain_order", hidden=True, requires="the_least_work_is_found")
def random_chains_are_ordered_too(student, rng):
    """on random chains, too, no order takes less"""
    for _ in range(8):
        sizes = [int(n) for n in rng.integers(1, 60, size=int(rng.integers(4, 10)))]
        got, _ = ordered(student, sizes)
        if got != least(sizes):
            raise Feedback(
                "for a random chain there is an order that takes another number.",
                hint="Which cuts of each piece do you try, from the first to the last?",
            )


# ---- 3. merge_matmuls


def heads(*widths):
    """Return x A, x B, ... with weights of these widths."""
    code = Code()
    x = code.input("x", 3, 4)
    weights = [code.input(f"w{i}", 4, n) for i, n in enumerate(widths)]
    code.outputs = [code.emit("tanh", code.emit("matmul", x, w)) for w in weights]
    return code, 1


def one_depends_on_the_other():
    """The second product's right factor comes from the first; the third could join."""
    code = Code()
    x, a, b = code.input("x", 3, 4), code.input("a", 4, 4), code.input("b", 4, 2)
    first = code.emit("matmul", x, a)
    second = code.emit("matmul", x, code.emit("transpose", first))
    code.outputs = [second, code.emit("matmul", x, b)]
    return code, 2


def one_depends_on_the_first():
    """The third product's right factor comes from the first, and stands before the second."""
    code = Code()
    x, a, b = code.input("x", 3, 4), code.input("a", 4, 4), code.input("b", 4, 2)
    turned = code.emit("transpose", code.emit("matmul", x, a))
    code.outputs = [code.emit("matmul", x, b), code.emit("matmul", x, turned)]
    return code, 2


def one_is_the_others_factor():
    """The second product's right factor is the first product itself."""
    code = Code()
    x, a = code.input("x", 4, 4), code.input("a", 4, 4)
    code.outputs = [code.emit("matmul", x, code.emit("matmul", x, a))]
    return code, 2


def two_groups():
    code = Code()
    x, y = code.input("x", 3, 4), code.input("y", 2, 4)
    a, b, c = code.input("a", 4, 2), code.input("b", 4, 3), code.input("c", 4, 1)
    pairs = ((x, a), (y, b), (x, b), (y, c), (x, c))
    code.outputs = [code.emit("matmul", *pair) for pair in pairs]
    return code, 2


def one_weight_twice():
    """Two products are of the same right factor, a third is not."""
    code = Code()
    x, a, b = code.input("x", 3, 4), code.input("a", 4, 2), code.input("b", 4, 3)
    code.outputs = [code.emit("matmul", x, w) for w in (a, a, b)]
    return code, 1


def weights_in_another_order():
    """The products come in another order than their right factors."""
    code = Code()
    x, *weights = code.input("x", 3, 4), *(code.input(f"w{i}", 4, i + 1) for i in range(3))
    code.outputs = [code.emit("matmul", x, w) for w in weights[::-1]]
    return code, 1


def far_apart():
    """Many steps lie between two products, and the left factor is a right one as well."""
    code = Code()
    x, a = code.input("x", 4, 4), code.input("a", 4, 2)
    at = code.emit("matmul", x, a)
    for _ in range(12):
        at = code.emit("tanh", at)
    code.outputs = [at, code.emit("matmul", x, x)]
    return code, 1


def common_right():
    code = Code()
    x, y, w = code.input("x", 3, 4), code.input("y", 2, 4), code.input("w", 4, 2)
    code.outputs = [code.emit("matmul", x, w), code.emit("matmul", y, w)]
    return code, 2


MERGES = (
    (lambda: heads(2, 2), "two products of one left factor"),
    (lambda: heads(2, 3, 1), "three products of one left factor, of different widths"),
    (one_weight_twice, "two products of one left factor and one right factor, and a third"),
    (weights_in_another_order, "products in another order than their right factors"),
    (far_apart, "two products far apart, one of a matrix with itself"),
    (two_groups, "two left factors whose products alternate"),
    (one_depends_on_the_other, "a product whose right factor is made of another one's result"),
    (one_depends_on_the_first, "a third product whose right factor is made of the first one's"),
    (one_is_the_others_factor, "a product whose right factor is the other product"),
    (common_right, "two products with one right factor"),
)


@check("merge_matmuls", weight=3, requires="one_product_a_group_is_left")
def merging_keeps_the_values(student, rng):
    """the outputs have the same values"""
    for make, what in MERGES:
        code, _ = make()
        hint = f"That was with {what}. Which columns are whose?"
        same_values(student, "merge_matmuls", code, rng, hint)


@check("merge_matmuls", weight=3)
def one_product_a_group_is_left(student, rng):
    """products of one left factor become one, where their right factors come before the first"""
    for make, what in MERGES:
        code, due = make()
        steps, _ = rewritten(student, "merge_matmuls", code)
        got = sum(op == "matmul" for op, _, _ in steps)
        if got != due:
            raise Feedback(
                f"merge_matmuls of {what}: {got} products are left, expected {due}. Which of them "
                "may join the first?"
            )


@check("merge_matmuls", hidden=True, requires="one_product_a_group_is_left")
def nothing_else_is_added(student, rng):
    """a group has one concat, one product and a slice for each member; a single product is kept"""
    code, _ = heads(2, 3, 1)
    alone = code.emit("matmul", code.input("z", 1, 4), 1)
    code.outputs.append(alone)
    steps, _ = rewritten(student, "merge_matmuls", code)
    ops = [op for op, _, _ in steps]
    counts = [ops.count(op) for op in ("concat", "matmul", "slice")]
    if counts != [1, 2, 3]:
        raise Feedback(
            "there are more steps than one concat, one product and the slices of a group.",
            hint="Emit the merged product once, at the group's first product, and remember it.",
        )


# ---- 4. fuse


def chain_code():
    code = Code()
    x, y = code.input("x", 3, 4), code.input("y", 3, 4)
    w = code.input("w", 1, 4)
    code.outputs = [code.emit("add", code.emit("relu", code.emit("mul", x, w)), y)]
    return code, "a chain of three elementwise steps", ["fused 3"]


def used_twice():
    code = Code()
    x = code.input("x", 3, 4)
    middle = code.emit("tanh", code.emit("neg", x))
    code.outputs = [code.emit("mul", code.emit("square", middle), code.emit("relu", middle))]
    return code, "a value that two others use", ["fused 2", "fused 3"]


def used_twice_by_one():
    code = Code()
    middle = code.emit("tanh", code.input("x", 3, 4))
    code.outputs = [code.emit("neg", code.emit("mul", middle, middle))]
    return code, "a value that one step uses twice", ["fused 2", "tanh"]


def an_output_inside():
    code = Code()
    middle = code.emit("tanh", code.emit("neg", code.input("x", 3, 4)))
    code.outputs = [middle, code.emit("relu", code.emit("square", middle))]
    return code, "a value that is an output as well", ["fused 2", "fused 2"]


def a_smaller_shape():
    code = Code()
    x, w = code.input("x", 3, 4), code.input("w", 1, 4)
    small = code.emit("tanh", code.emit("square", w))
    code.outputs = [code.emit("neg", code.emit("mul", x, small))]
    return code, "a row that is broadcast", ["fused 2", "fused 2"]


def a_product_between():
    code = Code()
    x, w = code.input("x", 3, 4), code.input("w", 4, 4)
    hidden = code.emit("relu", code.emit("matmul", code.emit("neg", code.emit("tanh", x)), w))
    total = code.emit("sum", code.emit("square", hidden), attr=None)
    code.outputs = [code.emit("neg", code.emit("tanh", total))]
    return (
        code,
        "elementwise steps with a product and a sum between them",
        ["fused 2", "fused 2", "fused 2", "matmul", "sum"],
    )


def a_long_chain():
    code = Code()
    x, y = code.input("x", 3, 4), code.input("y", 3, 4)
    at = code.emit("positive", code.emit("div", x, code.emit("tanh", y)))
    for op in ("neg", "square", "relu", "tanh") * 3:
        at = code.emit(op, at)
    code.outputs = [code.emit("mul", y, at)]
    return code, "a chain of sixteen steps, of all operators", ["fused 16"]


FUSIONS = (
    chain_code,
    a_long_chain,
    used_twice,
    used_twice_by_one,
    an_output_inside,
    a_smaller_shape,
    a_product_between,
)


def kinds(steps):
    """Return what the steps are, sorted: an operator, or fused and how many parts; no inputs."""
    names = [f"fused {len(attr)}" if op == "fused" else op for op, _, attr in steps]
    return sorted(name for name in names if name not in ("input", "const"))


@check("fuse", weight=3, requires="who_may_join_does_and_nobody_else")
def fusing_keeps_the_values(student, rng):
    """the outputs have the same values"""
    for make in FUSIONS:
        code, what, _ = make()
        same_values(student, "fuse", code, rng, f"The program: {what}.")
    for _ in range(4):
        same_values(student, "fuse", random_code(rng, 20), rng, "Who are the leaves now?")


@check("fuse", weight=4)
def who_may_join_does_and_nobody_else(student, rng):
    """a step joins when it and its only user are elementwise, of one shape"""
    for make in FUSIONS:
        code, what, due = make()
        got = kinds(rewritten(student, "fuse", code)[0])
        if got not in (due, kinds_after(code, twice=True)):
            raise Feedback(
                f"fuse of {what} left: {', '.join(got)}; expected: {', '.join(due)} (the number is "
                "that of the parts). Which of the conditions decides here: elementwise, one user, "
                "one shape, no output?"
            )


def shapes_of(code):
    feeds = {a[0]: np.zeros(a[1]) for op, _, a in code.steps if op == "input"}
    values = evaluate(code.steps, range(len(code.steps)), feeds, [])
    return [np.shape(value) for value in values]


def kinds_after(code, twice=False):
    """Return what `kinds` gives once everything is fused that may be.

    With `twice` a step that its only user reads twice joins too, and is computed twice.
    """
    shapes, users = shapes_of(code), [[] for _ in code.steps]
    elementwise = set(ARITHMETIC) - {"matmul"}
    for i, (_, inputs, _) in enumerate(code.steps):
        for j in inputs:
            users[j].append(i)
    for i in code.outputs:
        users[i].append(None)

    def joins(i):
        readers = set(users[i]) if twice else users[i]
        if code.steps[i][0] not in elementwise or len(readers) != 1 or None in readers:
            return False
        (u,) = readers
        return code.steps[u][0] in elementwise and shapes[u] == shapes[i]

    def parts(i):
        if code.steps[i][0] not in elementwise:
            return 1
        return 1 + sum(parts(j) for j in code.steps[i][1] if joins(j))

    roots = [i for i in range(len(code.steps)) if not joins(i)]
    names = [f"fused {n}" if (n := parts(i)) > 1 else code.steps[i][0] for i in roots]
    return sorted(name for name in names if name not in ("input", "const"))


@check("fuse", hidden=True, requires="who_may_join_does_and_nobody_else")
def random_programs_are_fused_as_far_as_they_may(student, rng):
    """on random programs too, exactly what may join does"""
    for _ in range(4):
        code = lean_code(rng, 24)
        due = (kinds_after(code), kinds_after(code, twice=True))
        if kinds(rewritten(student, "fuse", code)[0]) not in due:
            raise Feedback(
                "a random program was not fused as far as it may, or further.",
                hint="Check each of the conditions on a step with two users.",
            )


# ---- 5. lifetimes, place


def lived(steps, outputs):
    """Ask the learner's lifetimes; runs beside it."""
    program = Program()
    for op, inputs, attr in steps:
        program.emit(op, *inputs, attr=attr)
    program.outputs = list(outputs)
    return [[int(i), int(a), int(b)] for i, (a, b) in lifetimes(program).items()]


def asked_lives(student, code):
    answer = student.probe(lived, steps=code.steps, outputs=code.outputs)
    return {i: (a, b) for i, a, b in answer}


def named(code, i):
    return f"%{i} = {code.steps[i][0]}"


@check("lifetimes", weight=2)
def values_live_from_their_step_to_their_last_reader(student, rng):
    """(first, last) of every value that is computed, and of no input or constant"""
    for _ in range(3):
        code, k = padded(rng)
        x, c = code.input("x", 2, 3), code.const(2.0)
        a = code.emit("mul", x, c)
        b = code.emit("tanh", a)
        code.emit("neg", b)  # nobody reads it
        d = code.emit("add", a, x)
        dropped = code.emit("mul", d, code.emit("noise", attr=(0.5, (2, 3))))
        code.outputs = [code.emit("add", dropped, b), b]
        wide = code.emit("concat", d, x)
        code.emit("fused", wide, attr=(("neg", (0,)),))
        lives = {2: (2, 5), 3: (3, 11), 4: (4, 4), 5: (5, 9), 6: (6, 7), 7: (7, 8), 8: (8, 11)}
        lives |= {9: (9, 10), 10: (10, 10)}
        compare_lives(student, code, shifted(lives, k))


def padded(rng):
    """Return a program that begins with some inputs, and how many they are."""
    code, k = Code(), int(rng.integers(0, 6))
    for i in range(k):
        code.input(f"before{i}", 1, 1)
    return code, k


def shifted(lives, k):
    return {i + k: (first + k, last + k) for i, (first, last) in lives.items()}


def compare_lives(student, code, due):
    """Raise Feedback unless the learner's lives of the program are those that are due."""
    got = asked_lives(student, code)
    for i in sorted(set(got) | set(due)):
        if i not in due:
            raise Feedback(
                f"lifetimes gives {named(code, i)} memory of its own. Who brings that along?"
            )
        if i not in got:
            raise Feedback(
                f"lifetimes says nothing of {named(code, i)}, which needs memory when it is "
                "computed, whether anybody reads it or not."
            )
        if got[i] != due[i]:
            at = (
                "an output: the caller wants it after the run" if i in code.outputs else "no output"
            )
            raise Feedback(
                f"lifetimes: {named(code, i)} lives from {got[i][0]} to {got[i][1]}, expected "
                f"{due[i][0]} to {due[i][1]}. It is {at}. Which step reads it last?"
            )


@check("lifetimes", weight=2, requires="values_live_from_their_step_to_their_last_reader")
def views_keep_alive_what_they_look_at(student, rng):
    """a view has no memory, and its source lives as long as the view is read"""
    code, k = padded(rng)
    x = code.input("x", 3, 3)
    a = code.emit("tanh", x)
    part = code.emit("slice", code.emit("transpose", a), attr=(0, 2))
    b = code.emit("neg", x)
    seen = code.emit("transpose", x)
    code.outputs = [code.emit("sum", code.emit("matmul", seen, b), attr=0)]
    code.outputs.append(code.emit("square", part))
    code.emit("tanh", code.outputs[0])
    lives = {1: (1, 8), 4: (4, 6), 6: (6, 7), 7: (7, 10), 8: (8, 10), 9: (9, 9)}
    got, due = asked_lives(student, code), shifted(lives, k)
    for i, (op, _, _) in enumerate(code.steps):
        if op in VIEWS and i in got:
            raise Feedback(
                f"lifetimes gives {named(code, i)} memory of its own, but it is a view: whose "
                "numbers does it show?"
            )
    if got.get(a) != due[a]:
        raise Feedback(
            f"lifetimes: {named(code, a)} lives from {got.get(a, ('?', '?'))[0]} to "
            f"{got.get(a, ('?', '?'))[1]}, expected {due[a]}. A view of a view of it is read later: "
            "in whose memory?"
        )
    if got != due:
        raise Feedback("lifetimes of a program with views differs. Follow each view to its source.")


def lives_of(code):
    """Return {i: (first, last)}."""
    owner = {}
    for i, (op, inputs, _) in enumerate(code.steps):
        owner[i] = owner[inputs[0]] if op in VIEWS else i
    lives = {}
    for i, (op, _, _) in enumerate(code.steps):
        if op in VIEWS or op in ("input", "const"):
            continue
        owned = [k for k in owner if owner[k] == i]
        reads = [k for k, step in enumerate(code.steps) if set(step[1]) & set(owned)]
        end = [len(code.steps)] if set(owned) & set(code.outputs) else []
        lives[i] = (i, max([*owned, *reads, *end]))
    return lives


@check("lifetimes", hidden=True, requires="values_live_from_their_step_to_their_last_reader")
def so_it_is_for_random_programs_and_outputs_that_are_views(student, rng):
    """what an output looks at lives to the end; so do values of random programs as they should"""
    code = Code()
    a = code.emit("tanh", code.input("x", 2, 3))
    view = code.emit("transpose", a)
    code.emit("neg", code.emit("square", a))
    code.outputs = [view]
    for program in (code, *(random_code(rng) for _ in range(4))):
        if asked_lives(student, program) != lives_of(program):
            raise Feedback(
                "a value does not live as long as it should, or longer.",
                hint="Whose memory does the caller look at after the run, when an output is a view?",
            )


def placed(lives, sizes):
    """Ask the learner's place; runs beside it."""
    places = place({i: tuple(life) for i, life in lives}, dict(sizes))
    return [[int(i), int(offset)] for i, offset in places.items()]


def asked_place(student, lives, sizes):
    answer = student.probe(
        placed, lives=[[i, list(life)] for i, life in lives.items()], sizes=list(sizes.items())
    )
    got = dict(map(tuple, answer))
    if set(got) != set(lives):
        raise Feedback(
            f"place: offsets for {sorted(got)}, expected one for each of {sorted(lives)}."
        )
    return got


def random_lives(rng, count):
    """Return lives and sizes of some values, in an order that is not that of their numbers."""
    lives, sizes = {}, {}
    for i in rng.permutation(count):
        first = int(rng.integers(0, 12))
        lives[int(i)] = (first, first + int(rng.integers(0, 5)))
        sizes[int(i)] = 64 * int(rng.integers(1, 9))
    return lives, sizes


MEETING = ({0: (0, 1), 1: (1, 2), 2: (2, 3)}, {0: 64, 1: 128, 2: 64})
ARENAS = (  # (life, size) of some values, and the arena that greedy by size gives them
    ([((0, 1), 1), ((1, 2), 2), ((2, 3), 1)], 3),
    (
        [
            *[((6, 10), 8), ((2, 4), 7), ((10, 12), 4), ((5, 8), 6)],
            *[((5, 7), 2), ((5, 6), 3), ((3, 6), 7), ((5, 5), 6)],
        ],
        26,
    ),
    (
        [
            *[((4, 6), 3), ((7, 8), 4), ((2, 5), 2), ((7, 9), 1)],
            *[((10, 11), 1), ((6, 10), 5), ((3, 7), 5), ((8, 8), 4)],
        ],
        15,
    ),
    (
        [
            *[((7, 9), 1), ((5, 5), 2), ((3, 6), 3), ((6, 10), 6)],
            *[((1, 3), 7), ((6, 9), 7), ((1, 2), 8), ((8, 11), 6)],
        ],
        20,
    ),
)


def overlaps(lives, sizes, offsets):
    for i in lives:
        for j in lives:
            together = lives[i][0] <= lives[j][1] and lives[j][0] <= lives[i][1]
            above = offsets[i] >= offsets[j] + sizes[j] or offsets[j] >= offsets[i] + sizes[i]
            if i < j and together and not above:
                return i, j
    return None


@check("place", weight=3)
def nobody_lies_on_a_living_value(student, rng):
    """values that live at the same time, ends included, do not overlap"""
    for lives, sizes in (MEETING, *(random_lives(rng, n) for n in (5, 12, 25))):
        offsets = asked_place(student, lives, sizes)
        if min(offsets.values()) < 0:
            raise Feedback(f"place gave an offset below 0: {min(offsets.values())}.")
        pair = overlaps(lives, sizes, offsets)
        if pair:
            i, j = pair
            raise Feedback(
                f"place: two values overlap. One lives {lives[i]} at {offsets[i]} to "
                f"{offsets[i] + sizes[i]}, the other {lives[j]} at {offsets[j]} to "
                f"{offsets[j] + sizes[j]}. When do two lives touch?"
            )


@check("place", weight=3, requires="nobody_lies_on_a_living_value")
def the_arena_is_as_small_as_greedy_makes_it(student, rng):
    """largest first, each at the lowest place that is free"""
    for values, units in ARENAS:
        unit = 64 * int(rng.integers(1, 9))
        numbers = [int(i) for i in rng.permutation(len(values))]
        lives = {i: life for i, (life, _) in zip(numbers, values, strict=True)}
        sizes = {i: unit * size for i, (_, size) in zip(numbers, values, strict=True)}
        offsets = asked_place(student, lives, sizes)
        top = max(offsets[i] + sizes[i] for i in lives)
        if top > unit * units:
            raise Feedback(
                f"place of {len(lives)} values needs an arena of {top} bytes, greedy by size "
                f"{unit * units}. In which order are they placed, and which gaps are tried?"
            )


def greedy(lives, sizes):
    """Return the offsets: each at the end of another, or at 0, at the lowest that is free."""
    places = {}

    def is_free(i, at):
        others = [j for j in places if lives[j][0] <= lives[i][1] and lives[i][0] <= lives[j][1]]
        return all(at + sizes[i] <= places[j] or places[j] + sizes[j] <= at for j in others)

    for i in sorted(sorted(lives, key=lambda i: lives[i][0]), key=sizes.get, reverse=True):
        ends = [places[j] + sizes[j] for j in places]
        places[i] = min(at for at in [0, *ends] if is_free(i, at))
    return places


def leaves_lives_alone(lives, sizes):
    """Ask the learner's place; return whether its two dicts are what they were before."""
    lives, sizes = {i: tuple(life) for i, life in lives}, dict(sizes)
    before = list(lives.items()), list(sizes.items())
    place(lives, sizes)
    return (list(lives.items()), list(sizes.items())) == before


@check("place", hidden=True, requires="nobody_lies_on_a_living_value")
def lives_and_sizes_are_only_read(student, rng):
    """lives and sizes are as they were afterwards"""
    lives, sizes = random_lives(rng, 9)
    pairs = [[i, list(life)] for i, life in lives.items()]
    if not student.probe(leaves_lives_alone, lives=pairs, sizes=list(sizes.items())):
        hint = "A plan goes on with the lives that it had placed. Which line takes something out?"
        raise Feedback("place changed lives or sizes.", hint=hint)


@check("place", hidden=True, requires="nobody_lies_on_a_living_value")
def each_place_is_that_of_greedy_by_size(student, rng):
    """ties go to the value that lives first"""
    for count in (6, 15, 30):
        lives, sizes = random_lives(rng, count)
        lives = {i: (k, life[1] + k) for k, (i, life) in enumerate(lives.items())}
        if asked_place(student, lives, sizes) != greedy(lives, sizes):
            raise Feedback(
                "an offset is not that of greedy by size.",
                hint="Of equal sizes, who is first? And is it really the lowest gap?",
            )


# ---- 6. Caching


def traced(events):
    """Run a list of ("malloc", key, n) and ("free", key, 0); runs beside the learner's class."""
    reserved = []
    top = [1000]

    def reserve(n):
        reserved.append(int(n))
        top[0] += int(n)
        return top[0] - int(n)

    cache = Caching(reserve)
    address, log = {}, []
    for what, key, n in events:
        if what == "malloc":
            address[key] = int(cache.malloc(n))
            log.append([address[key], len(reserved)])
        else:
            cache.free(address[key])
            log.append([-1, len(reserved)])
    return log, reserved


def asked_trace(student, events):
    """Return (log, reserved), once no two living blocks are seen to overlap."""
    log, reserved = student.probe(traced, events=[list(event) for event in events])
    living = {}
    for (what, key, n), (address, _) in zip(events, log, strict=True):
        if what == "free":
            del living[key]
            continue
        if not 1000 <= address <= 1000 + sum(reserved) - n:
            raise Feedback(
                f"Caching: malloc({n}) returned address {address}, which is not within what was "
                "reserved. How large was the block that it came from?"
            )
        for other, (start, size) in living.items():
            if address < start + size and start < address + n:
                raise Feedback(
                    f"Caching: malloc({n}) returned {address}, but the {size} bytes from {start} "
                    f"on still belong to request {other}. What has to leave the list of free "
                    "blocks, and what goes back into it?"
                )
        living[key] = (address, n)
    return log, reserved


def random_events(rng, count):
    events, living, key = [], [], 0
    for _ in range(count):
        if living and rng.random() < 0.48:
            events.append(("free", living.pop(int(rng.integers(len(living)))), 0))
        else:
            key += 1
            living.append(key)
            events.append(("malloc", key, 16 * int(rng.integers(1, 20))))
    return events


@check("Caching", weight=2)
def every_block_belongs_to_one(student, rng):
    """no two blocks that are in use overlap, whatever is asked for and freed"""
    for count in (12, 60, 200):
        asked_trace(student, random_events(rng, count))


@check("Caching", weight=2, requires="every_block_belongs_to_one")
def what_was_freed_is_used_again(student, rng):
    """a block that came back is handed out again, in pieces too, before the system is asked"""
    n = 16 * int(rng.integers(5, 20))
    for sizes in ((n,), (n // 2, n // 2), (n // 4, n // 4, n // 2)):
        events = [("malloc", 0, n), ("free", 0, 0)]
        events += [("malloc", k + 1, size) for k, size in enumerate(sizes)]
        _, reserved = asked_trace(student, events)
        if reserved != [n]:
            raise Feedback(
                f"Caching: {n} bytes were freed, then {list(sizes)} asked for, and the system "
                f"reserved {reserved}. What becomes of the rest of a block that is too large?"
            )


@check("Caching", weight=2, requires="every_block_belongs_to_one")
def free_neighbours_become_one(student, rng):
    """after all parts have come back, in any order, the whole is free again"""
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1)):
        n = 16 * int(rng.integers(2, 9))
        events = [("malloc", k, n) for k in range(3)]
        events += [("free", k, 0) for k in order] + [("malloc", 3, 3 * n)]
        _, reserved = asked_trace(student, events)
        if reserved != [n] * 3:
            raise Feedback(
                f"Caching: three neighbours of {n} bytes came back in the order {list(order)}, "
                f"then {3 * n} were asked for, and the system reserved {reserved[3:]} more. Which "
                "neighbours does a block have, on which sides?"
            )


@check("Caching", weight=2, requires="every_block_belongs_to_one")
def the_smallest_that_fits_is_taken(student, rng):
    """of several free blocks the smallest that is large enough is taken"""
    n = 16 * int(rng.integers(2, 9))
    for sizes in ((4 * n, n, n, n, 2 * n), (2 * n, n, n, n, 4 * n)):
        events = [("malloc", k, size) for k, size in enumerate(sizes)]
        events += [("free", 0, 0), ("free", 4, 0), ("free", 2, 0)]
        events += [("malloc", 5, n), ("malloc", 6, 2 * n), ("malloc", 7, 4 * n)]
        _, reserved = asked_trace(student, events)
        if len(reserved) != 5:
            raise Feedback(
                f"Caching: blocks of {4 * n}, {n} and {2 * n} bytes were free, {n}, {2 * n} and "
                f"{4 * n} were asked for, and the system had to reserve {reserved[5:]}. Which of "
                "the blocks that fit is given away?"
            )


@check("Caching", hidden=True, requires="every_block_belongs_to_one")
def no_byte_is_lost(student, rng):
    """over many requests, all that was freed can be handed out again, and reserves fit"""
    events = random_events(rng, 150)
    living = {}
    for what, key, n in events:
        living = {k: v for k, v in living.items() if k != key}
        living |= {key: n} if what == "malloc" else {}
    log, reserved = asked_trace(student, events)
    for (what, _, n), (_, now), (_, before) in zip(events[1:], log[1:], log, strict=False):
        if what == "malloc" and now > before and reserved[before] != n:
            raise Feedback(
                "the system was asked for another size than the request's.",
                hint="Reserve just what is asked for.",
            )
    total = sum(reserved)
    events += [("free", key, 0) for key in living] + [("malloc", -1, total)]
    _, again = asked_trace(student, events)
    if again != reserved:
        raise Feedback(
            "after everything had come back, the whole was not one free block.",
            hint="Follow one split block through its life: do its parts find each other?",
        )


# ---- 7. search


def searched(costs, edges, start, alpha, budget):
    """Run the learner's search over a table; runs beside it."""
    from itertools import count
    from operator import attrgetter

    texts = count()

    class Thing:
        def __init__(self, name):
            self.name = name

        def __str__(self):  # says nothing of a program: the fingerprint does
            return f"text {next(texts)}"

    asked, moves = [], []

    def cost(thing):
        asked.append(thing.name)
        if len(asked) > 500:
            raise RuntimeError("cost was asked 500 times")
        return costs[thing.name]

    def rewrite(k):
        def move(thing):
            moves.append(thing.name)
            if len(moves) > 500:
                raise RuntimeError("rewrites were tried 500 times")
            return Thing(edges[thing.name][k])

        return move

    rewrites = [rewrite(k) for k in range(len(edges[start]))]
    name = attrgetter("name")
    price, best = search(Thing(start), rewrites, cost, name, alpha=alpha, budget=budget)
    return float(price), best.name, asked, moves


def asked_search(student, costs, edges, start="s", alpha=1.05, budget=30):
    asked = {"costs": costs, "edges": edges, "start": start, "alpha": alpha, "budget": budget}
    try:
        return student.probe(searched, **asked)
    except StudentError as error:
        if "'<' not" not in str(error):
            raise
        raise Feedback(
            "search: two programs in the queue were compared, and programs have no order. Tuples "
            "of equal cost are compared by the next item: what stands between the cost and the "
            "program, and can it be the same twice?"
        ) from error


@check("search", weight=2)
def the_cheapest_is_found(student, rng):
    """the cheapest program that can be reached is returned with its cost"""
    unit = float(rng.uniform(0.5, 2.0))
    costs = {"s": 100, "a": 97, "b": 98, "c": 90, "d": 80, "e": 100}
    costs = {name: unit * cost for name, cost in costs.items()}
    edges = {"s": "ab", "a": "sc", "b": "ds", "c": "ce", "d": "ae", "e": "ss"}
    price, name, _, _ = asked_search(student, costs, edges)
    if name != "d" or price != costs["d"]:
        raise Feedback(
            f"search returned a program of cost {price:g}; one of {costs['d']:g} can be reached by "
            "rewrites that each gain something. Which programs are in the queue, and what is kept "
            "as the best?"
        )
    price, name, _, _ = asked_search(student, {"s": 5.0, "a": 7.0}, {"s": "a", "a": "s"})
    if name != "s" or price != 5.0:
        raise Feedback(
            f"search returned a program of cost {price:g}, although the one at the start costs 5."
        )
    price, name, _, _ = asked_search(student, {"s": 5.0, "a": 4.0}, {"s": "sa", "a": "ss"})
    if name != "a":
        raise Feedback(
            f"search returned a program of cost {price:g}: the first rewrite changes nothing, the "
            "second leads to one of cost 4. A program was seen before: what about the rewrites "
            "behind that one?"
        )


@check("search", weight=2, requires="the_cheapest_is_found")
def small_hills_are_crossed_and_large_ones_not(student, rng):
    """what costs less than alpha times the best so far is looked at, nothing else"""
    for alpha in (1.05, 1.0, 1.3):
        for factor in (0.99, 1.01, 1.0):
            costs = {"s": 100.0, "a": 100.0 * alpha * factor, "b": 50.0}
            edges = {"s": "a", "a": "b", "b": "b"}
            _, name, _, _ = asked_search(student, costs, edges, alpha=alpha)
            crossed = costs["a"] < alpha * 100.0
            if (name == "b") != crossed:
                hint = "When may a worse program wait in the queue?"
                if costs["a"] < 100.0:
                    hint = "It is a new best, and goes into the queue: held against which best?"
                raise Feedback(
                    f"search with alpha {alpha}: from a program of cost 100 a rewrite leads to one "
                    f"of {costs['a']:.4g}, and from there to one of 50. It was "
                    f"{'not ' if crossed else ''}found. {hint}"
                )
    costs = {"s": 100.0, "a": 60.0, "b": 62.0, "c": 64.0, "d": 10.0}
    edges = {"s": "ac", "a": "bb", "b": "bb", "c": "dd", "d": "dd"}
    _, name, _, _ = asked_search(student, costs, edges)
    if name == "d":
        raise Feedback(
            "search looked behind a program of cost 64 when the best so far was 60, with alpha "
            "1.05. Alpha times which cost is the limit: that of the start, or of the best?"
        )


@check("search", weight=2, requires="the_cheapest_is_found")
def each_program_is_measured_once(student, rng):
    """cost is asked once for each different program, and circles end"""
    costs = {"s": 10.0, "a": 10.2, "b": 10.1, "c": 10.0, "e": 90.0}
    edges = {"s": "abse", "a": "sbce", "b": "acse", "c": "abce", "e": "ssss"}
    try:
        _, _, asked, _ = asked_search(student, costs, edges, budget=100)
    except StudentError as error:
        if "500 times" not in str(error):
            raise
        raise Feedback(
            "search goes round in circles: programs lead to each other, and it looked at the same "
            "ones again and again. How do you know that you have seen a program? Two are the same "
            "where their fingerprints are."
        ) from error
    twice = sorted({name for name in asked if asked.count(name) > 1})
    if twice:
        raise Feedback(
            f"search measured {len(twice)} of 5 programs more than once: {', '.join(twice)}. A "
            "measurement takes time. When is a program one that was seen, queued or not? Its fingerprint says."
        )


@check("search", requires="the_cheapest_is_found")
def the_cheapest_goes_first_and_the_budget_holds(student, rng):
    """the cheapest program of the queue is taken first, at most `budget` times"""
    costs = {"s": 100.0, "a": 99.0, "b": 97.0, "c": 98.0, "d": 20.0, "e": 10.0}
    edges = {"s": "abc", "a": "eee", "b": "ddd", "c": "eee", "d": "sss", "e": "sss"}
    for budget, due in ((1, 97.0), (2, 20.0), (0, 100.0)):
        price, _, _, moves = asked_search(student, costs, edges, budget=budget)
        if len(moves) > 3 * budget:
            raise Feedback(
                f"search with budget {budget} and 3 rewrites tried {len(moves)} rewrites. How many "
                "programs may be taken out of the queue?"
            )
        if price != due:
            raise Feedback(
                f"search with budget {budget} found a cost of {price:g}, expected {due:g}. Which "
                "program of the queue is taken next?"
            )
    costs = {"s": 8.0, "a": 7.0, "b": 7.0, "c": 7.0, "d": 1.0}
    edges = {"s": "abc", "a": "aaa", "b": "bbb", "c": "ddd", "d": "ddd"}
    asked_search(student, costs, edges)
