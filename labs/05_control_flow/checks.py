"""Checks of lab 05: dead tokens, cond, tags and frames, while_loop, their gradients, batching.

Expected values are closed forms in NumPy on inputs drawn anew. What runs beside the learner's code
is in the functions that `probe` sends; a dead token travels as the text "dead".
"""

from contextlib import contextmanager

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

LAB = LabSettings(preload=("numpy", "minitorch", "matplotlib.pyplot"))

DEAD = "dead"


@contextmanager
def hint_at_errors(called, hint):
    """Turn an error of the learner's code inside into feedback with a hint."""
    try:
        yield
    except StudentError as error:
        raise Feedback(f"{called} raised {str(error).rstrip('. ')}.", hint=hint) from error


def as_float32(array):
    return np.asarray(array, np.float32)


# 1. fire


def run_fire(kind, tokens, side):
    """Fire an operator once; return (its token or "dead", how often it computed)."""
    from minitorch.op import Op

    runs = []

    class Weigh(Op):
        def compute(self, xp, *arrays):
            runs.append(len(arrays))
            return sum((i + 1.0) * a for i, a in enumerate(arrays))

    op = {"switch": lambda: Switch(side), "merge": Merge, "other": Weigh}[kind]()
    inputs = [DEAD if isinstance(t, str) else t for t in tokens]
    token = fire(op, inputs)
    return ("dead" if token is DEAD else token), len(runs)


def ask_fire(student, kind, tokens, side=True):
    called = f"fire of {kind}"
    hint = "Which tokens can be dead here? Compare with `is`: `token is DEAD`."
    with hint_at_errors(called, hint):
        return student.probe(run_fire, kind=kind, tokens=tokens, side=side)


def is_dead(token):
    return isinstance(token, str) and token == DEAD


def must_be_dead(token, what, hint):
    if not is_dead(token):
        raise Feedback(f"{what} sent a token that is alive.", hint=hint)


def must_live(token, what, hint):
    if is_dead(token):
        raise Feedback(f"{what} sent a dead token.", hint=hint)


@check("fire", weight=2)
def live_inputs_are_computed(student, rng):
    """an ordinary operator computes its inputs, in order"""
    drawn = [as_float32(rng.normal(size=(2, 2))) for _ in range(3)]
    for arrays in (drawn[:1], drawn, [drawn[0], np.zeros((2, 2), np.float32)]):
        token, _ = ask_fire(student, "other", arrays)
        hint = "op.compute(np, *tokens): all of the inputs, in their order, zeros too."
        must_live(token, "An operator with live inputs", hint)
        right = sum((i + 1.0) * a for i, a in enumerate(arrays))
        close(token, right, called="fire(op, tokens)", hint=hint)


@check("fire", weight=2)
def switch_sends_one_way(student, rng):
    """a Switch hands the data on where the predicate is its side, and is dead otherwise"""
    data = as_float32(rng.normal(size=3))
    hint = "The predicate is the second input. Switch(True) lives where it is true, Switch(False) "
    hint += "where it is false."
    for side in (True, False):
        for predicate in (np.array(True), np.array(False), np.bool_(True), np.bool_(False)):
            token, _ = ask_fire(student, "switch", [data, predicate], side)
            what = f"Switch({side}) with the predicate {bool(predicate)}"
            if bool(predicate) == side:
                must_live(token, what, hint)
                close(token, data, called=what, hint=hint)
            else:
                must_be_dead(token, what, hint)


@check("fire", weight=2)
def merge_takes_the_live_one(student, rng):
    """a Merge passes on the live token wherever it comes, the first of several, else a dead one"""
    a, b = as_float32(rng.normal(size=(2, 2, 2)))
    hint = "One live input is enough for a Merge, and it is the only operator of which that is so."
    for tokens, right in [([a, DEAD], a), ([DEAD, a], a), ([DEAD, DEAD, b], b), ([b, a], b)]:
        token, _ = ask_fire(student, "merge", tokens)
        must_live(token, "A Merge with a live input", hint)
        close(token, right, called="Merge", hint="Of several live ones the first.")
    token, _ = ask_fire(student, "merge", [DEAD, np.zeros((2, 2), np.float32)])
    hint = "Zeros are alive, too: compare with `is`, `token is DEAD`."
    must_live(token, "A Merge with a live token of zeros", hint)
    token, _ = ask_fire(student, "merge", [DEAD, DEAD])
    must_be_dead(
        token, "A Merge of dead inputs alone", "Nothing came, so there is nothing to send."
    )


@check("fire", weight=2, requires="live_inputs_are_computed")
def deadness_spreads(student, rng):
    """an operator with a dead input computes nothing and is dead"""
    a = as_float32(rng.normal(size=2))
    hint = "Any dead input, whichever it is: do not compute, and send DEAD."
    for tokens in ([DEAD], [a, DEAD], [DEAD, a], [a, DEAD, a]):
        token, runs = ask_fire(student, "other", tokens)
        must_be_dead(token, "An operator with a dead input", hint)
        if runs:
            raise Feedback("An operator with a dead input was computed.", hint=hint)
    for tokens in ([DEAD, np.array(True)], [a, DEAD], [DEAD, DEAD]):
        token, _ = ask_fire(student, "switch", tokens)
        must_be_dead(token, "A Switch with a dead input", hint)


# 2. cond


def run_cond(which, inputs, by_tokens):
    """Run one of the conds below; return (value, how often each spy computed, calls)."""
    from minitorch.op import Op

    runs, calls = {}, []

    class Spy(Op):
        pure = False

        def __init__(self, label):
            self.label = label

        def compute(self, xp, x):
            runs[self.label] = runs.get(self.label, 0) + 1
            return x

        def infer(self, x):
            return x

    def spy_on(label, function):
        def side(*values):
            calls.append(label)
            return function(*(Spy(label)(v) for v in values))

        return side

    nodes = [placeholder(f"p{i}", a.shape) for i, a in enumerate(inputs)]
    p, *rest = nodes
    sides = {
        "two": (lambda a, b: a - b, lambda a, b: a * b),
        "number": (lambda a, b: 7.0, lambda a, b: a - b),
        "numbers": (lambda a, b: 3.0, lambda a, b: -4.0),
        "outside": (lambda a, b: rest[1], lambda a, b: rest[0]),
        "no inputs": (lambda: rest[1], lambda: 5.0),
    }
    if which == "nested":

        def inner(a, b):
            return cond(a.sum() > 1.0, lambda a, b: a + b, lambda a, b: a - b, a, b)

        node = cond(p > 0.0, inner, lambda a, b: b * 2.0, *rest)
    else:
        yes, no = sides[which]
        handed_in = [] if which == "no inputs" else rest
        node = cond(p > 0.0, spy_on("yes", yes), spy_on("no", no), *handed_in)
    if not isinstance(node, type(p)):
        return type(node).__name__
    feeds = dict(zip(nodes, inputs))
    token = run([node], feeds)[0] if by_tokens else run_in_order([node], feeds)[node]
    return ("dead" if token is DEAD else token), runs, calls


WAY = "Switch each input for its side, call the function on these, and merge the two results."


def ask_cond(student, which, inputs, by_tokens=False, hint=WAY):
    with hint_at_errors("cond", hint):
        got = student.probe(run_cond, which=which, inputs=inputs, by_tokens=by_tokens)
    if isinstance(got, str):
        raise Feedback(f"cond returned something of type {got}, expected one node.", hint=WAY)
    return got


def draw_pair(rng):
    return [as_float32(a) for a in rng.uniform(1, 3, size=(2, 2))]


@check("cond", weight=2, requires="the_other_side_computes_nothing")
def the_right_side_gives_the_value(student, rng):
    """the value is if_true's where the predicate holds, and if_false's otherwise"""
    a, b = draw_pair(rng)
    hint = "Which side sees the value where the predicate is true? And both get all the inputs."
    for sign, right in [(1.0, a - b), (-1.0, a * b)]:
        token, _, _ = ask_cond(student, "two", [as_float32(sign), a, b])
        must_live(token, f"cond with a predicate that is {sign > 0}", hint)
        close(token, right, called=f"cond, the predicate {sign > 0}", hint=hint)


@check("cond", weight=2)
def the_other_side_computes_nothing(student, rng):
    """only the side that is taken computes"""
    a, b = draw_pair(rng)
    for sign, right in [(1.0, {"yes": 2}), (-1.0, {"no": 2})]:
        _, runs, _ = ask_cond(student, "two", [as_float32(sign), a, b])
        if runs != right:
            raise Feedback(
                f"cond: with a predicate that is {sign > 0}, the sides computed so often: {runs}.",
                hint="What kills the tokens on their way into the side that is not taken?",
            )


@check("cond", weight=2, requires="the_right_side_gives_the_value")
def a_side_may_be_a_number(student, rng):
    """a side that returns a number counts only where it is taken"""
    a, b = draw_pair(rng)
    hint = "A constant is always alive, whichever side it is on, and a Merge takes the first that "
    hint += "is alive. What could kill it, on its way from its side to the Merge?"
    for which, yes, no in [("number", 7.0, a - b), ("numbers", 3.0, -4.0)]:
        for sign, right in [(1.0, yes), (-1.0, no)]:
            token, _, _ = ask_cond(student, which, [as_float32(sign), a, b])
            must_live(token, "cond with a number for a side", hint)
            close(token, right, called="cond with a number for a side", hint=hint)


@check("cond", requires="a_side_may_be_a_number")
def a_result_may_come_from_outside(student, rng):
    """a side may return a node from outside, and need no inputs at all"""
    a, b = draw_pair(rng)
    hint = "A node from outside is as alive as a number. Which of your lines kills every result of "
    hint += "the side that is not taken, whatever it is, with or without inputs?"
    for which, yes, no in [("outside", b, a), ("no inputs", b, 5.0)]:
        for sign, right in [(1.0, yes), (-1.0, no)]:
            token, _, _ = ask_cond(student, which, [as_float32(sign), a, b], hint=hint)
            must_live(token, "cond with a result from outside", hint)
            close(token, right, called="cond with a result from outside", hint=hint)


def find_ways_around():
    """Return what of a cond comes into a side, or out of it, without a Switch on the way."""
    from lessons.graphs.tokens import in_order

    p, a, b = (placeholder(name) for name in "pab")
    inside = []

    def side(x):
        inside.append(x)
        return b

    node = cond(p > 0.0, side, side, a)
    switches = {n for n in in_order([node, *inside]) if isinstance(n.op, Switch)}
    ways = {"an input": (a, inside), "a result": (b, [node])}
    return [name for name, (first, last) in ways.items() if first in set(in_order(last, switches))]


@check("cond", requires="a_result_may_come_from_outside")
def inputs_and_results_pass_a_switch(student, rng):
    """inputs and results pass a Switch, by which gradients find back"""
    for what in student.probe(find_ways_around):
        raise Feedback(
            f"cond: {what} has passed no Switch. The values are right, and its gradient will be dead.",
            hint="beside(value, witness) hands a dead adjoint back where the witness is dead. Which "
            "operator's adjoint is zeros there?",
        )


@check("cond", requires="the_right_side_gives_the_value")
def each_side_is_built_once(student, rng):
    """both functions are called once, to build"""
    a, b = draw_pair(rng)
    _, _, calls = ask_cond(student, "two", [as_float32(1.0), a, b])
    if sorted(calls) != ["no", "yes"]:
        raise Feedback(
            f"cond called the functions of its sides so: {calls}.",
            hint="The graph holds both sides; who decides between them is the run.",
        )


@check("cond", hidden=True, requires="the_right_side_gives_the_value")
def a_cond_in_a_cond(student, rng):
    """a cond inside a cond, run by the token executor too"""
    a, b = draw_pair(rng)
    for by_tokens in (False, True):
        for outer, inner, right in [(1, 1, a + b), (1, -1, -a - b), (-1, 1, b * 2)]:
            inputs = [as_float32(outer), inner * a, b]
            token, _, _ = ask_cond(student, "nested", inputs, by_tokens)
            must_live(token, "A cond in a cond", "")
            close(token, right, called="a cond in a cond")


# 2. gradient_rules


def run_branch_gradients(which, inputs):
    """Return the gradients of one of the branches below, by hand-made Switches and Merges."""
    nodes = [placeholder(f"p{i}", a.shape) for i, a in enumerate(inputs)]
    p, *rest = nodes
    yes = {
        "mixed": lambda a, b: a * a * b,
        "one": lambda a, b: a * 3.0,
        "root": lambda a, b: a**0.5,
    }[which]

    def no(a, b):
        return b - a * 2.0 if which != "root" else b

    inside = [[record(Switch(side), [v, p > 0.0]) for v in rest] for side in (False, True)]
    result = record(Merge(), [no(*inside[0]), yes(*inside[1])])
    slopes = gradients([result.sum()], [1.0], rest)
    tokens = run_in_order(slopes, dict(zip(nodes, inputs)))
    return ["dead" if tokens[s] is DEAD else tokens[s] for s in slopes]


def run_merge_gradient(value, sign):
    """Return the tokens of a Merge's adjoints, by its rule alone; None for anything else."""
    x, p = placeholder("x", value.shape), placeholder("p")
    sides = [record(Switch(side), [x, p > 0.0]) for side in (False, True)]
    sides.append(record(Switch(False), [sides[1], p > 0.0]))  # never alive
    rule = merge_gradient(x * 10.0, record(Merge(), sides))
    if not isinstance(rule, tuple | list) or len(rule) != len(sides):
        return None
    tokens = run_in_order(list(rule), {x: value, p: sign})
    return ["dead" if tokens[node] is DEAD else tokens[node] for node in rule]


def run_switch_gradient(value, sign, side):
    """Return the token of a Switch's adjoint, by its rule alone, and whether the rest is None."""
    x, p = placeholder("x", (None, *value.shape[1:])), placeholder("p")
    node = record(Switch(side), [x, p > 0.0])
    rule = switch_gradient(node * 10.0, node)
    if not isinstance(rule, tuple | list) or len(rule) != 2:
        return None
    tokens = run_in_order([rule[0]], {x: value, p: sign})
    token, merges = tokens[rule[0]], [node for node in tokens if isinstance(node.op, Merge)]
    alive = [sum(tokens.get(s) is not DEAD for s in merge.inputs) for merge in merges]
    return ("dead" if token is DEAD else token), rule[1] is None, max(alive, default=1)


@check("gradient_rules", weight=2)
def a_merge_sends_back_where_it_took(student, rng):
    """a Merge's adjoints are alive exactly where its inputs are"""
    x = as_float32(rng.normal(size=3))
    hint = "Of the adjoints one should be alive: that of the input which was alive itself."
    called = "merge_gradient"
    for sign, live_side in [(1.0, 1), (-1.0, 0)]:
        with hint_at_errors(called, hint):
            tokens = student.probe(run_merge_gradient, value=x, sign=sign)
        if tokens is None:
            raise Feedback(
                "merge_gradient should return a tuple, one adjoint for each input; this Merge has 3."
            )
        if not (is_dead(tokens[1 - live_side]) and is_dead(tokens[2])):
            raise Feedback("merge_gradient sent an adjoint to the side not taken.", hint=hint)
        must_live(tokens[live_side], "merge_gradient, to the side that was taken,", hint)
        close(tokens[live_side], 10 * x, called=called, hint="The adjoint itself, unchanged.")


SHAPE = " That shape may be known only in the run: what has it there?"


@check("gradient_rules", weight=2)
def a_switch_has_an_adjoint_on_both_ways(student, rng):
    """a Switch's adjoint is what arrives where its side was taken, zeros otherwise"""
    x = as_float32(rng.normal(size=(2, 3)))
    hint = "Alive always: what arrives if this side was taken, and zeros of the shape of data if "
    hint += "the other was. Which operator picks the one that is alive?"
    most_alive = 1
    for side in (True, False):
        for sign in (1.0, -1.0):
            with hint_at_errors("switch_gradient of data of shape (None, 3)", hint + SHAPE):
                answer = student.probe(run_switch_gradient, value=x, sign=sign, side=side)
            if answer is None:
                raise Feedback("switch_gradient should return (adjoint of the data, None).")
            token, none, alive = answer
            what = f"switch_gradient of Switch({side}), the predicate {sign > 0},"
            must_live(token, what, hint)
            right = 10 * x if (sign > 0) == side else np.zeros((2, 3), np.float32)
            close(token, right, called=what, hint=hint)
            most_alive = max(most_alive, alive)
            if not none:
                raise Feedback("switch_gradient: the predicate has no gradient: None.")
    if most_alive > 1:
        raise Feedback(
            f"switch_gradient merges {most_alive} tokens that are alive at once.",
            hint="A Merge sends what comes first. What makes the zeros dead where an adjoint arrives?",
        )


@check("gradient_rules", weight=2, requires="a_merge_sends_back_where_it_took")
def branches_have_gradients(student, rng):
    """the gradient through a branch is that of the side taken, and zero for what it does not use"""
    a, b = draw_pair(rng)
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    cases = [
        ("mixed", 1.0, [2 * a * b, a * a]),
        ("mixed", -1.0, [-2 * ones, ones]),
        ("one", 1.0, [3 * ones, zeros]),
        ("root", 1.0, [0.5 / np.sqrt(a), zeros]),
        ("root", -1.0, [zeros, ones]),
    ]
    for which, sign, right in cases:
        hint = "Each Switch of a value contributes: one of them an adjoint, the other zeros."
        inputs = [as_float32(sign), a, b]
        with hint_at_errors("A branch's gradient", hint):
            got = student.probe(run_branch_gradients, which=which, inputs=inputs)
        for token in got:
            must_live(token, "The gradient through a branch", hint)
        close(got, right, called=f"gradients through a branch, taken {sign > 0}", hint=hint)


@check("gradient_rules", hidden=True, requires="branches_have_gradients")
def what_is_not_taken_does_no_harm(student, rng):
    """the gradient of the side not taken is not computed: no NaN from a root of nothing"""
    a, b = -draw_pair(rng)[0], draw_pair(rng)[1]
    got = student.probe(run_branch_gradients, which="root", inputs=[as_float32(-1.0), a, b])
    hint = "0 * NaN is NaN: what is not taken must not be computed, in the backward graph either."
    for token in got:
        must_live(token, "The gradient beside a root of a negative number", hint)
    zeros, ones = np.zeros(2, np.float32), np.ones(2, np.float32)
    close(got, [zeros, ones], called="the gradient beside a root of a negative number", hint=hint)


# 3. tag_after, is_finished


def run_tag_after(kind, loop, tag):
    from minitorch.op import Op

    kinds = {"Enter": Enter, "NextIteration": NextIteration, "Exit": Exit}
    op = kinds[kind](loop) if kind in kinds else (Merge() if kind == "Merge" else Op())
    new_tag = tag_after(op, tuple((name, i) for name, i in tag))
    if not isinstance(new_tag, tuple) or not all(isinstance(pair, tuple) for pair in new_tag):
        return type(new_tag).__name__
    return [list(pair) for pair in new_tag]


def compare_tags(student, cases):
    for kind, loop, tag, right, hint in cases:
        got = student.probe(run_tag_after, kind=kind, loop=loop, tag=tag)
        if isinstance(got, str):
            raise Feedback(
                f"tag_after of {kind} gave no tuple of pairs, but something of type {got}.",
                hint="A tag is a tuple of (loop, iteration) pairs; () outside. (a, b) + (c,) joins.",
            )
        if got != right:
            tag_text = ", ".join(f"({name!r}, {i})" for name, i in tag)
            raise Feedback(
                f"tag_after({kind}({loop!r}), ({tag_text})) gave {[tuple(p) for p in got]}.",
                hint=hint,
            )


@check("tag_after", weight=2)
def enter_opens_iteration_zero(student, rng):
    """Enter adds (loop, 0) behind what is there"""
    i = int(rng.integers(3, 9))
    hint = "The loop that is entered becomes the innermost, the last pair, at iteration 0."
    compare_tags(
        student,
        [
            ("Enter", "a", [], [["a", 0]], hint),
            ("Enter", "b", [["a", i]], [["a", i], ["b", 0]], hint),
        ],
    )


@check("tag_after", weight=2)
def next_iteration_counts_the_innermost(student, rng):
    """NextIteration adds one to the innermost iteration alone"""
    i, j = (int(n) for n in rng.integers(3, 9, size=2))
    hint = "The last pair counts up; what is outside stays as it is."
    compare_tags(
        student,
        [
            ("NextIteration", "a", [["a", i]], [["a", i + 1]], hint),
            ("NextIteration", "b", [["a", i], ["b", j]], [["a", i], ["b", j + 1]], hint),
            (
                "NextIteration",
                "c",
                [["a", i], ["b", j], ["c", 1]],
                [["a", i], ["b", j], ["c", 2]],
                hint,
            ),
        ],
    )


@check("tag_after", weight=2)
def exit_leaves_the_innermost(student, rng):
    """Exit takes the innermost pair away"""
    i, j = (int(n) for n in rng.integers(3, 9, size=2))
    hint = "Outside the loop a token has the tag with which it came in."
    compare_tags(
        student,
        [
            ("Exit", "a", [["a", i]], [], hint),
            ("Exit", "b", [["a", i], ["b", j]], [["a", i]], hint),
            ("Exit", "c", [["a", i], ["b", j], ["c", 1]], [["a", i], ["b", j]], hint),
        ],
    )


@check("tag_after", requires="enter_opens_iteration_zero")
def others_leave_the_tag_alone(student, rng):
    """any other operator leaves the tag as it is"""
    i = int(rng.integers(3, 9))
    hint = "An addition inside a loop stays in its iteration."
    for kind in ("Merge", "any other"):
        compare_tags(
            student, [(kind, "a", t, t, hint) for t in ([], [["a", i]], [["a", i], ["b", 2]])]
        )


def run_is_finished(live, entered, enters):
    from lessons.graphs.tokens import Frame

    frame = Frame("loop", (), enters)
    frame.live, frame.entered = live, entered
    finished = is_finished(frame)
    return None if finished is None else bool(finished)


@check("is_finished", weight=2)
def finished_when_nothing_is_inside_and_nothing_can_come(student, rng):
    """a frame is finished when nothing is under way in it and every Enter has had its token"""
    for enters in (1, 2, int(rng.integers(3, 7))):
        for live in (0, 1, int(rng.integers(2, 9))):
            for entered in range(enters + 1):
                got = student.probe(run_is_finished, live=live, entered=entered, enters=enters)
                state = f"live {live}, entered {entered} of {enters}"
                if got is None:
                    raise Feedback("is_finished returned None.", hint="Does it end in a return?")
                if got and live:
                    raise Feedback(
                        f"{state}: called finished.", hint="Something is still under way in it."
                    )
                if got and entered < enters:
                    raise Feedback(
                        f"{state}: called finished.",
                        hint="No token inside is not enough: can one still come in from outside?",
                    )
                if not got and not live and entered == enters:
                    raise Feedback(
                        f"{state}: called not finished.",
                        hint="Nothing is inside, and nothing can come any more.",
                    )


def run_late_loop(start, wait, rounds):
    """Run a loop whose second variable comes late, and one that only dead tokens enter."""
    i, x, p = placeholder("i"), placeholder("x"), placeholder("p")
    slow = x
    for _ in range(wait):
        slow = slow + 0.0
    entries = [record(Switch(True), [v, p > 0.0]) for v in (i, slow)]
    tops = [record(Merge(), [record(Enter("l"), [v])]) for v in entries]
    goes_on = tops[0] < float(rounds)
    inside = [record(Switch(True), [top, goes_on]) for top in tops]
    for top, new in zip(tops, [inside[0] + 1.0, inside[1] * 2.0]):
        top.inputs += (record(NextIteration("l"), [new]),)
    ends = [record(Exit("l"), [record(Switch(False), [top, goes_on])]) for top in tops]
    after = ends[1] + 1.0
    results = []
    for sign in (1.0, -1.0):
        values = Run([ends[0], after], {i: 0.0, x: start, p: sign}).values
        results.append([values.get(node) for node in (ends[0], after)])
    return [["dead" if v is DEAD else v for v in pair] for pair in results]


@check("is_finished", requires="finished_when_nothing_is_inside_and_nothing_can_come")
def a_late_variable_is_waited_for(student, rng):
    """in a run: a variable that comes late comes out, and a loop that is not entered is dead"""
    start = as_float32(rng.uniform(1, 2))
    taken, skipped = student.probe(run_late_loop, start=start, wait=60, rounds=3)
    if is_dead(taken[1]):
        raise Feedback(
            "A variable that came into its loop late came out dead.",
            hint="When the counting was over, had it come in already?",
        )
    close(taken, [as_float32(3.0), start * 8 + 1], called="a loop with a late variable")
    if skipped != [DEAD, DEAD]:
        raise Feedback("A loop that only dead tokens enter should send dead ones out.")


# 4. while_loop


def run_while_loop(which, inputs):
    """Run one of the loops below; return the results, how often body and test ran, and calls."""
    from minitorch.op import Op

    runs, calls = {}, []

    class Spy(Op):
        pure = False

        def __init__(self, label):
            self.label = label

        def compute(self, xp, x):
            runs[self.label] = runs.get(self.label, 0) + 1
            return x

        def infer(self, x):
            return x

    def less(i, n, *rest):
        calls.append("test")
        return Spy("test")(i) < n

    def power(i, n, y, x):
        calls.append("body")
        return [Spy("body")(i) + 1.0, n, y * x, x]

    def fibonacci(i, n, a, b):
        calls.append("body")
        return [Spy("body")(i) + 1.0, n, b, a + b]

    def reset(i, n, a, b):
        calls.append("body")
        return [Spy("body")(i) + 1.0, n, a + i, 7.0]

    body = {"power": power, "fibonacci": fibonacci, "reset": reset}[which]
    nodes = [placeholder(f"p{i}", a.shape) for i, a in enumerate(inputs)]
    ends = while_loop(less, body, 0.0, *nodes)
    if not isinstance(ends, (list, tuple)):
        return "no list"
    tokens = run(list(ends), dict(zip(nodes, inputs)))
    return ["dead" if t is DEAD else t for t in tokens], runs, calls


WIRING = (
    "Follow one variable through the diagram: Enter, Merge, Switch both ways, body, "
    "NextIteration, back to the Merge; and Exit. Is each of them there, for each variable?"
)


def ask_while_loop(student, which, inputs, hint=WIRING):
    with hint_at_errors("while_loop, or its run,", hint):
        got = student.probe(run_while_loop, which=which, inputs=inputs)
    if got == "no list":
        raise Feedback("while_loop returned no list.", hint="One node for each variable: its Exit.")
    for token in got[0]:
        must_live(token, "An Exit of the loop", hint)
    return got


@check("while_loop", weight=3)
def the_body_is_run_as_long_as_the_test_holds(student, rng):
    """the variables after n rounds"""
    x = as_float32(rng.uniform(0.5, 1.5, size=2))
    for n in (3, 1, 5):
        tokens, runs, _ = ask_while_loop(
            student, "power", [as_float32(n), np.ones(2, np.float32), x]
        )
        if runs.get("body", 0) > n:
            raise Feedback(
                f"while_loop: of {n} rounds the body computed {runs['body']}.",
                hint="What ends the loop: a count of yours, or a token that the test has killed?",
            )
        hint = "All variables come out, in their order, as the test saw them last."
        right = [as_float32(n), as_float32(n), x**n, x]
        close(tokens, right, called=f"x to the power of {n}, by a loop", hint=hint)


@check("while_loop", weight=2, requires="the_body_is_run_as_long_as_the_test_holds")
def old_values_make_the_new(student, rng):
    """the body sees all variables of one iteration, and never one of the next"""
    a, b = (as_float32(v) for v in rng.uniform(0, 1, size=2))
    tokens, _, _ = ask_while_loop(student, "fibonacci", [as_float32(5), a, b])
    x, y = a, b
    for _ in range(5):
        x, y = y, x + y
    hint = (
        "body(*inside) gives the new values in the order of the variables: which Merge gets which?"
    )
    close(tokens[2:], [x, y], called="(a, b) -> (b, a + b), five times", hint=hint)


@check("while_loop", weight=2, requires="the_body_is_run_as_long_as_the_test_holds")
def test_comes_before_body(student, rng):
    """the test is asked before each round: no round at all if it fails at once"""
    x = as_float32(rng.uniform(0.5, 1.5, size=2))
    for n in (0, 4):
        start = as_float32(rng.uniform(1, 2, size=2))
        tokens, runs, _ = ask_while_loop(student, "power", [as_float32(n), start, x])
        hint = "Who sends the variables into the body, and with which predicate? The test looks at "
        hint += "the Merges."
        close(tokens[2], start * x**n, called=f"a loop of {n} rounds", hint=hint)
        if runs.get("body", 0) != n or runs.get("test", 0) != n + 1:
            raise Feedback(f"A loop of {n} rounds computed {runs}.", hint=hint)


def run_numbers_alone(start):
    """Run a loop whose body sets its only variable to a number."""
    x = placeholder("x")
    tokens = run(list(while_loop(lambda i: i < 5.0, lambda i: [7.0], x)), {x: start})
    return ["dead" if t is DEAD else np.asarray(t) for t in tokens]


@check("while_loop", requires="the_body_is_run_as_long_as_the_test_holds")
def numbers_are_values_too(student, rng):
    """start values and new values may be numbers"""
    a, b = (as_float32(v) for v in rng.uniform(0, 1, size=2))
    hint = "A constant has no token. What puts it beside something that has one?"
    tokens, _, _ = ask_while_loop(student, "reset", [as_float32(3), a, b], hint)
    close(tokens[2:], [a + 3, as_float32(7.0)], called="a body that gives a number", hint=hint)
    hint = "Of the nodes that you have, which is alive in every round, and no more when the test fails?"
    with hint_at_errors("while_loop with a body that gives numbers alone", hint):
        found = student.probe(run_numbers_alone, start=float(a))
    close(found, [as_float32(7.0)], called="a body that gives numbers alone", hint=hint)


@check("while_loop", requires="the_body_is_run_as_long_as_the_test_holds")
def test_and_body_are_built_once(student, rng):
    """test and body are called once, to build"""
    x = as_float32(rng.uniform(0.5, 1.5, size=2))
    _, _, calls = ask_while_loop(student, "power", [as_float32(4), x, x])
    if sorted(calls) != ["body", "test"]:
        raise Feedback(
            f"while_loop called test and body so: {calls}.",
            hint="The graph has one test and one body; the tokens go round.",
        )


def run_two_loops(n, m):
    """Run a loop in a loop, behind it another loop, and one that is not entered."""

    def outer(i, n, m, total):
        _, _, m, total = while_loop(
            lambda j, i, m, t: j < m, lambda j, i, m, t: [j + 1.0, i, m, t + i], 0.0, i, m, total
        )
        return [i + 1.0, n, m, total]

    a, b = placeholder("a"), placeholder("b")
    total = while_loop(lambda i, n, m, t: i < n, outer, 0.0, a, b, 0.0)[3]
    twice = while_loop(lambda k, s: k < 2.5, lambda k, s: [k + 1.0, s * 2.0], 0.5, total)[1]
    idle = while_loop(lambda k: k < 9.0, lambda k: [k + 1.0], record(Switch(True), [a, a < 0.0]))[0]
    results = run([total, twice, idle], {a: n, b: m})
    return [np.asarray(t) for t in results[:2]], results[2] is DEAD


@check("while_loop", hidden=True, requires="the_body_is_run_as_long_as_the_test_holds")
def a_loop_in_a_loop(student, rng):
    """a loop in a loop, one behind it, and one that is not entered"""
    hint = "Each loop has a name of its own: what is it for?"
    for n, m in [(4, 3), (3, 0)]:
        called = f"loops of {n} and {m} rounds"
        with hint_at_errors(called, hint):
            got, idle = student.probe(run_two_loops, n=float(n), m=float(m))
        total = as_float32(m * sum(range(n)))
        close(got, [total, total * 4], called=called, hint=hint)
        if not idle:
            raise Feedback("A loop that no live token enters should give a dead one.", hint=hint)


# 5. loop_vjp


def run_loop_vjp(which, inputs, arriving):
    """Run one of the loops below and its way back; return (ends, adjoints of the inputs)."""
    import minitorch as mt
    from lessons.graphs.tokens import as_node

    nodes = [placeholder(f"p{i}", a.shape) for i, a in enumerate(inputs)]
    bodies = {
        "power": lambda i, n, y, x: [i + 1.0, n, y * x, x],
        "pair": lambda i, n, a, b: [i + 1.0, n, a * b, a + b],
        "layer": lambda i, n, h, w: [i + 1.0, n, mt.tanh(h @ w), w],
    }
    pair = loop_vjp(lambda i, n, *_: i < n, bodies[which], 0.0, *nodes)
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not callable(pair[1]):
        return "no function"
    ends, back = pair
    slopes = back(*[as_node(a) + 0.0 for a in (2.0, 3.0, *arriving)])
    if not isinstance(slopes, list | tuple) or len(slopes) != len(ends):
        return "too few"
    results = run([*ends[2:], *slopes], dict(zip(nodes, inputs)))
    results = ["dead" if t is DEAD else np.asarray(t) for t in results]
    return results[:2], results[4:], results[2:4]


def ask_loop_vjp(student, which, inputs, arriving):
    hint = "Print the nodes of one round back: the values popped, the adjoints, what gradients() "
    hint += "gives. Each has its place."
    with hint_at_errors("loop_vjp, or its run,", hint):
        got = student.probe(run_loop_vjp, which=which, inputs=inputs, arriving=arriving)
    if got == "no function":
        raise Feedback("loop_vjp should return (ends, back), back being a function.")
    if got == "too few":
        raise Feedback(
            "back(*arriving) does not give one adjoint a variable.",
            hint="The stack is a variable of both loops, but not one of the caller's.",
        )
    for token in (*got[0], *got[1], *got[2]):
        must_live(token, "loop_vjp", hint)
    return got


def differentiate_layer(h, w, g, n):
    """Return (end, adjoint of h, adjoint of w) of h = tanh(h @ w), n times."""
    states = [h]
    for _ in range(n):
        states.append(np.tanh(states[-1] @ w))
    by_w = np.zeros_like(w)
    for before, after in zip(states[-2::-1], states[:0:-1], strict=True):
        z = g * (1 - after**2)
        by_w, g = by_w + before.T @ z, z @ w.T
    return states[-1], g, by_w


@check("loop_vjp", weight=2)
def the_ends_are_the_loops(student, rng):
    """the results are those of the loop"""
    x, y = (as_float32(v) for v in rng.uniform(0.5, 1.5, size=2))
    zero = as_float32(0.0)
    for n in (4, 0):
        ends, *_ = ask_loop_vjp(student, "power", [as_float32(n), y, x], [zero, zero])
        hint = "The stack is one more variable in front: is it among the ends that you return?"
        close(ends, [y * x**n, x], called=f"loop_vjp's ends after {n} rounds", hint=hint)


@check("loop_vjp", weight=3)
def rounds_are_undone_in_reverse(student, rng):
    """the adjoints go back through every round, last round first"""
    x, y, g = (as_float32(v) for v in rng.uniform(0.5, 1.5, size=3))
    for n in (3, 1, 6):
        _, slopes, others = ask_loop_vjp(
            student, "power", [as_float32(n), y, x], [g, as_float32(0.0)]
        )
        hint = "In round i the body had the values of round i: they are on top of the stack now. "
        hint += "The adjoints that go on are those of the values, not of the results."
        right = [g * x**n, g * y * n * x ** (n - 1)]
        close(slopes, right, called=f"adjoints of (y, x) in y * x**{n}", hint=hint)
        hint = "i + 1 hands its adjoint on as it came; n does not change. Both are variables too."
        close(
            others,
            as_float32([2, 3]),
            called="adjoints of (i, n), which came as 2 and 3",
            hint=hint,
        )


@check("loop_vjp", weight=2)
def variables_that_mix(student, rng):
    """both variables change, and each depends on the other"""
    a, b, ga, gb = rng.uniform(0.5, 1.2, size=4)
    n = 3
    jacobian, x, y = np.eye(2), a, b
    for _ in range(n):
        jacobian, x, y = np.array([[y, x], [1, 1]]) @ jacobian, x * y, x + y
    right = np.array([ga, gb]) @ jacobian
    arriving = [as_float32(ga), as_float32(gb)]
    _, slopes, _ = ask_loop_vjp(
        student, "pair", [as_float32(n), as_float32(a), as_float32(b)], arriving
    )
    hint = "Each result has its own adjoint: gradients(outputs, arriving, inputs), in their order."
    close(
        slopes,
        [as_float32(v) for v in right],
        called="adjoints of (a, b) -> (a b, a + b)",
        hint=hint,
    )


@check("loop_vjp", requires="rounds_are_undone_in_reverse")
def no_round_is_no_change(student, rng):
    """a loop of no rounds hands the adjoints back as they came"""
    x, y, g, k = (as_float32(v) for v in rng.uniform(0.5, 1.5, size=4))
    _, slopes, _ = ask_loop_vjp(student, "power", [as_float32(0), y, x], [g, k])
    close(slopes, [g, k], called="adjoints through a loop of no rounds", hint="filled(stack)")


@check("loop_vjp", hidden=True, weight=2, requires="rounds_are_undone_in_reverse")
def a_weight_collects_from_every_round(student, rng):
    """a weight that does not change has the sum of the gradients of all rounds"""
    h, w, g = (as_float32(rng.normal(size=s)) for s in [(2, 3), (3, 3), (2, 3)])
    for n in (5, 2):
        end, by_h, by_w = differentiate_layer(h, w, g, n)
        zero = np.zeros((3, 3), np.float32)
        ends, slopes, _ = ask_loop_vjp(student, "layer", [as_float32(n), h, w], [g, zero])
        close(ends[0], end, called=f"tanh(h @ w), {n} times", rtol=1e-4)
        close(slopes, [by_h, by_w], called="adjoints of (h, w)", rtol=1e-3, atol=1e-5)


# 6. padded_rnn


def run_padded_rnn(table, lengths, h, w, u, steps):
    """Return the states, and the names of the graph's operators."""
    from lessons.graphs.tokens import Node, in_order

    t, n = placeholder("t", (None, None, 1)), placeholder("n", (None, 1))
    start, a, b = placeholder("h", (None, 8)), placeholder("w", (1, 8)), placeholder("u", (8, 8))
    node = padded_rnn(t, n, start, a, b, steps)
    if not isinstance(node, Node):
        return None
    loops = sum(isinstance(k.op, (Enter, Exit, NextIteration)) for k in in_order([node]))
    (token,) = run([node], {t: table, n: lengths, start: h, a: w, b: u})
    return token, loops


def compute_states(table, lengths, h, w, u):
    h = h.astype(np.float64).copy()
    for b, n in enumerate(lengths[:, 0].astype(int)):
        for i in range(n):
            h[b] = np.tanh(table[i, b] @ w + h[b] @ u)
    return h.astype(np.float32)


def draw_padded_task(rng, lengths):
    steps, size = max([*lengths, 1]), len(lengths)
    table, h = rng.normal(size=(steps, size, 1)), rng.normal(size=(size, 8))
    w, u = rng.normal(size=(1, 8)), rng.normal(size=(8, 8)) / 3
    arrays = [as_float32(a) for a in (table, np.array(lengths)[:, None], h, w, u)]
    return dict(zip(("table", "lengths", "h", "w", "u"), arrays, strict=True)), steps


def compare_states(student, rng, lengths, hint):
    task, steps = draw_padded_task(rng, lengths)
    called = f"padded_rnn of {len(lengths)} sentences of {lengths} symbols"
    with hint_at_errors(called, hint):
        got = student.probe(run_padded_rnn, steps=steps, **task)
    if got is None:
        raise Feedback("padded_rnn returned no node.", hint="Nothing runs here: build the graph.")
    close(got[0], compute_states(**task), called=called, hint=hint, rtol=1e-4, atol=1e-5)
    return got[1]


@check("padded_rnn", weight=2)
def full_sentences_are_read_to_the_end(student, rng):
    """sentences without padding are read from the first symbol to the last"""
    for lengths in ([4], [1], [3, 3, 3]):
        hint = "steps cells, the i-th on row i, each on the state of the one before."
        compare_states(student, rng, lengths, hint)


@check("padded_rnn", weight=3)
def padding_does_not_touch_the_state(student, rng):
    """a state stays as it is once its sentence is over"""
    for lengths in ([5, 2], [1, 6, 3, 2], [2, 5]):
        hint = "A row counts for the sentences that still have a symbol there: i < length. The "
        hint += "others keep the state that they have."
        compare_states(student, rng, lengths, hint)


@check("padded_rnn", requires="padding_does_not_touch_the_state")
def an_empty_sentence_keeps_its_start(student, rng):
    """an empty sentence keeps the state it started with, and there is no loop in the graph"""
    loops = compare_states(student, rng, [0, 3, 0], "Length 0: no row counts.")
    if loops:
        raise Feedback("padded_rnn has a loop in its graph. It was to be unrolled.")


# 7. by_height


def draw_forest(rng, size):
    """Return (left, right) of a random forest: children before parents."""
    left, right = [-1, -1], [-1, -1]
    for n in range(2, size):
        leaf = rng.random() < 0.35
        a, b = (int(i) for i in rng.integers(max(0, n - 7), n, size=2))
        left.append(-1 if leaf else a)
        right.append(-1 if leaf else b)
    return left, right


def compute_heights(left, right):
    heights = []
    for a, b in zip(left, right, strict=True):
        heights.append(0 if a < 0 else 1 + max(heights[a], heights[b]))
    return heights


@check("by_height", weight=2)
def every_node_is_in_one_group(student, rng):
    """every node is in one group, and children in lower groups than their parents"""
    for left, right in [
        draw_forest(rng, 12),
        draw_forest(rng, 30),
        ([-1, -1, 0, 2], [-1, -1, 1, 1]),
    ]:
        groups = [list(group) for group in student.call("by_height", left, right)]
        flat = [node for group in groups for node in group]
        if sorted(flat) != list(range(len(left))):
            raise Feedback(
                f"by_height of {len(left)} nodes gave groups of {[len(g) for g in groups]}.",
                hint="Each node once, in the group of its height, leaves too.",
            )
        place = {node: k for k, group in enumerate(groups) for node in group}
        for node, (a, b) in enumerate(zip(left, right, strict=True)):
            if a >= 0 and max(place[a], place[b]) >= place[node]:
                raise Feedback(
                    "by_height: a node is in the same group as one of its children, or below it.",
                    hint="A node can be computed when *both* children have been: the higher counts.",
                )


@check("by_height", weight=2)
def groups_are_the_heights(student, rng):
    """group k holds the nodes of height k, ascending, and there are no more groups than heights"""
    for left, right in [
        draw_forest(rng, 15),
        draw_forest(rng, 40),
        ([-1], [-1]),
        ([-1, 0], [-1, 0]),
    ]:
        got = [[int(n) for n in group] for group in student.call("by_height", left, right)]
        heights = compute_heights(left, right)
        expected = [[n for n, h in enumerate(heights) if h == k] for k in range(max(heights) + 1)]
        hint = "A leaf has height 0; any other node one more than its higher child. As few groups "
        hint += "as possible: each is one cell."
        close(got, expected, called=f"by_height of {len(left)} nodes", hint=hint)


def leaves_the_tree_alone(left, right):
    """Ask for the heights, and return whether the lists are what they were before."""
    before = list(left), list(right)
    by_height(left, right)
    return (left, right) == before


@check("by_height", hidden=True, requires="groups_are_the_heights")
def the_tree_is_only_read(student, rng):
    """left and right are as they were afterwards"""
    left, right = draw_forest(rng, 12)
    if not student.probe(leaves_the_tree_alone, left=left, right=right):
        hint = "The cells look their children up in the same lists. Which line changes one of them?"
        raise Feedback("by_height changed left or right.", hint=hint)
