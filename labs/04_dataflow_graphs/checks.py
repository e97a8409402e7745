"""Checks of lab 04: recording, partial runs, symbolic gradients, state, optimizer, plan.

Expected values are closed forms in NumPy on inputs drawn anew. What runs beside the learner's code
is in the functions that `probe` sends; they build graphs of the learner's own nodes.
"""

import re

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

LAB = LabSettings(
    preload=("numpy", "minitorch", "matplotlib.pyplot"),
    withheld=(
        *("lessons.graphs.tokens:in_order", "lessons.graphs.tokens:gradients"),
        *("minitorch.sweep:sweep", "minitorch.sweep:count_uses"),
    ),
)


# 1. record


def recorded(shapes, number, dtype):
    """Record one operator on placeholders and a number; tell what came of it."""
    from minitorch.op import Op, Spec

    runs = []

    class Weighted(Op):
        name = "weigh"

        def compute(self, xp, *arrays):
            runs.append(len(arrays))
            return np.zeros(2)

        def infer(self, *specs):
            return Spec((specs[0].shape[0], len(specs), *specs[-1].shape[1:]), specs[-1].dtype)

    op = Weighted()
    sources = [Placeholder(shape, f"p{i}") for i, shape in enumerate(shapes[:-1])]
    sources.append(Node(None, (), shapes[-1], dtype, "last"))
    inputs = [sources[0], number, *sources[1:]]
    node = record(op, inputs)
    if not isinstance(node, Node):
        return {"kind": type(node).__name__, "ran": runs}
    own_inputs = list(node.inputs)
    at = [next((i for i, s in enumerate(inputs) if s is n), -1) for n in own_inputs]
    constants = [np.array(n.value) for n in own_inputs if isinstance(n, Constant)]
    return {
        "kind": "node",
        "op": node.op is op,
        "order": at,
        "nodes": all(isinstance(n, Node) for n in own_inputs),
        "constants": constants,
        "shape": list(node.shape),
        "dtype": str(node.dtype),
        "name": node.name,
        "ran": runs,
        "new": record(op, sources) is not record(op, sources),
        "twice": len(record(op, [sources[0], sources[0]]).inputs),
    }


def look_at(student, rng, *values):
    n = int(rng.integers(3, 9))
    shapes = [(None, 2), (2, n), (4, n + 1)]
    number, dtype = (
        *(values or (float(rng.normal()),)),
        str(rng.choice(["int64", "bool", "float64"])),
    )
    facts = student.probe(recorded, shapes=shapes, number=number, dtype=dtype)
    return shapes, number, dtype, facts


def must_be_a_node(facts):
    if facts["kind"] != "node":
        raise Feedback(
            f"record(op, inputs) returned something of type {facts['kind']}, not a Node.",
            hint="An operator on nodes makes another node.",
        )


@check("record", weight=2)
def a_node_remembers_operator_and_inputs(student, rng):
    """the node holds the operator, and its inputs in order, numbers as constants"""
    must_hold_its_inputs(*look_at(student, rng))


@check("record", requires="a_node_remembers_operator_and_inputs")
def whole_numbers_and_arrays_become_constants(student, rng):
    """an array and an integer become constants as well"""
    for value in (rng.normal(size=2).astype(np.float32), int(rng.integers(2, 9)), 0):
        must_hold_its_inputs(*look_at(student, rng, value))


def must_hold_its_inputs(_shapes, number, _dtype, facts):
    """Raise Feedback where a recorded node does not hold its operator and its four inputs."""
    must_be_a_node(facts)
    if not facts["nodes"]:
        raise Feedback(
            f"record(op, [p0, {describe(number)}, p1, p2]) has an input that is no node.",
            hint="A number has no shape, and an array no op. What turns it into a node?",
        )
    if len(facts["order"]) != 4:
        raise Feedback(
            f"record(op, [p0, {describe(number)}, p1, p2]) has {len(facts['order'])} inputs.",
            hint="Every input counts, and a number is one too.",
        )
    if not facts["op"]:
        raise Feedback("The node's op is not the operator that was recorded.")
    if facts["order"] != [0, -1, 2, 3]:
        raise Feedback(
            "record(op, [p0, 1.5, p1, p2]) has its inputs in another order, or copies of them.",
            hint="`a - b` is not `b - a`, and a copy of a placeholder is another placeholder.",
        )
    constants = [np.asarray(number, None if isinstance(number, int) else np.float32)]
    close(facts["constants"], constants, called="record: the constants among the inputs")


def describe(number):
    return "an array" if np.ndim(number) else f"{number:.3g}"


@check("record", weight=2)
def shape_and_dtype_are_inferred(student, rng):
    """shape, dtype and name are those of the result"""
    shapes, _, dtype, facts = look_at(student, rng)
    must_be_a_node(facts)
    close(
        [facts["shape"], facts["dtype"], facts["name"]],
        [[None, 4, *shapes[-1][1:]], dtype, "weigh"],
        called="record: [shape, dtype, name]",
        hint="The operator knows what its result looks like, not the inputs: op.infer, op.name.",
    )


@check("record", requires="a_node_remembers_operator_and_inputs")
def each_call_makes_a_node(student, rng):
    """each call makes a node of its own, and one node may be both inputs"""
    *_, facts = look_at(student, rng)
    if facts["twice"] != 2:
        raise Feedback(
            f"record(op, [p, p]) has {facts['twice']} input.",
            hint="x * x has two inputs, and both are x.",
        )
    if not facts["new"]:
        raise Feedback(
            "record(op, inputs), called twice, gave one node.",
            hint="Two operators may have one name, and two calls mean two nodes: who knows that "
            "an operator gives the same each time it runs?",
        )


@check("record", requires="a_node_remembers_operator_and_inputs")
def nothing_is_computed(student, rng):
    """recording computes nothing"""
    *_, facts = look_at(student, rng)
    if facts["ran"]:
        raise Feedback("record ran op.compute.", hint="A node has no value yet. Who asks for one?")


def an_unfit_product(rows):
    x, y = Placeholder((rows, 2), "x"), Placeholder((3, rows), "y")
    try:
        record((x @ x.T).op, [x, y])
    except ValueError as error:
        return type(error).__name__
    return "nothing"


@check("record", requires="shape_and_dtype_are_inferred")
def a_wrong_shape_is_found_at_once(student, rng):
    """an operator that does not fit raises when it is recorded"""
    if student.probe(an_unfit_product, rows=int(rng.integers(4, 9))) == "nothing":
        raise Feedback("A product of shapes that do not fit was recorded without a word.")


# 2. needed, evaluate


def order_of(parents, fetches, fed, times=1, lines=None):
    """Build a graph, node i from its parents; return `needed` as indices (-1: a stranger).

    It is asked `times` times with one list of fetches, and the last answer counts. With `lines`
    the answer may run so many lines, and what comes back is how many it has run: -1 is more than
    that. Python's limit of recursion comes back where it has changed.

    No list of the nodes is left when the order is asked for, as it would be the answer.
    """
    import sys

    from minitorch.op import Op

    def count(frame, event, argument):
        nonlocal ran
        ran += event == "line"
        if ran > lines:
            raise RuntimeError("too many lines")
        return count

    def built():
        nodes = []
        for i, above in enumerate(parents):
            op = Op() if above else None
            nodes.append(Node(op, [nodes[p] for p in above], (), name=f"n{i}"))
        place = {id(node): i for i, node in enumerate(nodes)}
        return [nodes[i] for i in fetches], {nodes[i]: None for i in fed}, place

    (asked, feeds, place), ran, before = built(), 0, sys.gettrace()
    limit = sys.getrecursionlimit()
    if lines is not None:
        sys.settrace(count)
    try:
        for _ in range(times):
            needed_nodes = needed(asked, feeds)
    except RuntimeError:
        if lines is None or ran <= lines:
            raise
        return -1
    finally:
        sys.settrace(before)
        raised, _ = sys.getrecursionlimit(), sys.setrecursionlimit(limit)
    if lines is not None:
        return ran
    return [place.get(id(node), -1) for node in needed_nodes] if raised == limit else raised


def must_run(parents, fetches, fed):
    required, waiting = set(), list(fetches)
    while waiting:
        node = waiting.pop()
        if node not in required:
            required.add(node)
            waiting += [] if node in fed else parents[node]
    return required


def random_graph(rng, size):
    """Parents of each node, one to three earlier ones; the first three nodes are sources."""
    later = [
        sorted({int(i) for i in rng.integers(max(0, n - 6), n, size=3)}) for n in range(3, size)
    ]
    return [[], [], [], *later]


def some_graphs(rng):
    """Yield (parents, fetches, fed) of random graphs."""
    for size in (5, 9, 30):
        parents = random_graph(rng, size)
        yield parents, [int(rng.integers(1, size - 1)), size - 1], [int(rng.integers(3, size - 1))]


@check("needed", weight=2)
def what_the_fetches_depend_on_is_there(student, rng):
    """every node that the fetches depend on is there, and no other"""
    for parents, fetches, _ in some_graphs(rng):
        order = student.probe(order_of, parents=parents, fetches=fetches, fed=[])
        right = must_run(parents, fetches, [])
        if set(order) != right:
            raise Feedback(
                f"needed: {len(right - set(order))} of {len(right)} nodes are missing, "
                f"{len(set(order) - right)} do not belong (fetches {fetches}, nothing fed).",
                hint="There may be several fetches. Each is needed, with all that leads to it.",
            )


@check("needed", requires="what_the_fetches_depend_on_is_there")
def inputs_come_before_users_and_once(student, rng):
    """inputs stand before their users, and each node once"""
    for parents, fetches, _ in some_graphs(rng):
        order = student.probe(order_of, parents=parents, fetches=fetches, fed=[])
        if len(order) != len(set(order)):
            raise Feedback(
                f"needed: {len(order)} entries for {len(set(order))} nodes.",
                hint="A node with two users is met twice. How do you know it again?",
            )
        place = {node: i for i, node in enumerate(order)}
        for node in order:
            if any(place[p] > place[node] for p in parents[node]):
                raise Feedback(
                    "needed: a node stands before one of its inputs.",
                    hint="A node may be appended only when all of its inputs are in the list.",
                )


@check("needed", weight=2, requires="what_the_fetches_depend_on_is_there")
def nothing_behind_a_fed_node(student, rng):
    """a fed node is there, and what only it needs is not"""
    chain, fork = ([[], [0], [1], [2]], [3], [2]), ([[], [0], [0]], [1], [2])
    itself = [[], [0], [1], [2]], [3, 2], [2]
    for parents, fetches, fed in [chain, fork, itself, *some_graphs(rng)]:
        order = student.probe(order_of, parents=parents, fetches=fetches, fed=fed)
        right = must_run(parents, fetches, fed)
        if set(fed) & set(order) - right:
            raise Feedback(
                "needed: a fed node is there that nothing fetched depends on.",
                hint="A feed says what a value is, and not that somebody wants it. Who says that?",
            )
        if set(order) - right:
            raise Feedback(
                f"needed: nodes that only a fed node needs are there: {len(set(order) - right)}.",
                hint="A fed node has its value already: who still asks for its inputs?",
            )
        if right - set(order):
            raise Feedback(
                f"needed: with a node fed, nodes are missing: {len(right - set(order))}.",
                hint="The fed node itself stays: its users need its value. And what others need "
                "besides it stays too.",
            )


@check("needed", requires="what_the_fetches_depend_on_is_there")
def asked_again_it_gives_the_same(student, rng):
    """a second call with the same list of fetches gives the same nodes"""
    for parents, fetches, fed in some_graphs(rng):
        order = student.probe(order_of, parents=parents, fetches=fetches, fed=fed, times=2)
        missing = must_run(parents, fetches, fed) - set(order)
        if missing:
            raise Feedback(
                f"needed, called a second time with the same list: {len(missing)} nodes are missing.",
                hint="What does the first call leave behind, or take out of the caller's list?",
            )


@check("needed", requires="what_the_fetches_depend_on_is_there")
def a_deep_graph_is_no_problem(student, rng):
    """a chain of 20,000 nodes works, so nothing recurses"""
    depth = 20_000
    parents = [[]] + [[i] for i in range(depth)]
    hint = "Python's own stack is a thousand calls deep. Who else could remember where to go on?"
    try:
        order = student.probe(order_of, parents=parents, fetches=[depth], fed=[])
    except StudentError as error:
        raise Feedback(
            f"A chain of 20,000 nodes raised {str(error).rstrip('. ')}.", hint=hint
        ) from error
    if isinstance(order, int):
        raise Feedback(f"needed has moved Python's limit of recursion to {order:,}.", hint=hint)
    if order != list(range(depth + 1)):
        raise Feedback("A chain of 20,000 nodes comes out in another order.")


@check("needed", requires="what_the_fetches_depend_on_is_there")
def the_work_grows_with_the_nodes(student, rng):
    """ten times as many nodes take ten times as many lines of work, however many paths"""

    def lines_run(parents, allowed):
        inputs = {"parents": parents, "fetches": [len(parents) - 1], "fed": []}
        ran = student.probe(order_of, lines=allowed, **inputs)
        if ran < 0:
            raise Feedback(
                f"A graph of {len(parents)} nodes had you run more than {allowed:,} lines.",
                hint="Each node and each edge is looked at once. How much do you go through to "
                "see whether a node is known, or how often along each path?",
            )
        return ran

    for order in ((0, 1), (1, 0)):
        small, large = ([[], [0], *np.add.outer(range(n), order).tolist()] for n in (58, 598))
        lines_run(large, 15 * lines_run(small, 20_000))


def evaluated(x, w, c, fed, twice):
    """Evaluate tanh(x - w) * c + shared; return values by name, and what ran how often."""
    from minitorch.op import Op

    runs = {}

    class Shift(Op):
        def __init__(self, name, f):
            self.label, self.f = name, f

        def compute(self, xp, *arrays):
            runs[self.label] = runs.get(self.label, 0) + 1
            return self.f(*arrays)

        def infer(self, *specs):
            return specs[0]

    p, v = Placeholder(x.shape, "p"), Variable(np.zeros(x.shape), "v")
    difference = Shift("difference", lambda a, b: a - b)(p, v)
    scaled = Shift("scaled", lambda a, b: a * b)(difference, c)
    total = Shift("total", lambda a, b: a + b)(scaled, difference)
    idle = Shift("idle", lambda a: a)(total)
    named = {"p": p, "v": v, "difference": difference, "scaled": scaled, "total": total}
    feeds = {p: w if fed == "v" else x}
    if fed is not None:
        feeds[scaled.inputs[1] if fed == "c" else named[fed]] = x
    evaluate([total], {**feeds, p: x + 1.0}, {v: w - 1.0})
    runs.clear()
    state, handed_in = {v: w}, list(feeds)
    values = evaluate([total, scaled] if twice else [total], feeds, state)
    if not isinstance(values, dict):
        return type(values).__name__
    return {
        "values": {name: values[node] for name, node in named.items() if node in values},
        "ran": runs,
        "idle": idle in values,
        "unchanged": list(feeds) == handed_in and list(state) == [v] and state[v] is w,
    }


def ask(student, rng, fed=None, twice=False, scale=1.0):
    x, w = rng.normal(size=(2, 2, 3)).astype(np.float32)
    x *= scale
    c = float(rng.uniform(1, 2))
    outcome = student.probe(evaluated, x=x, w=w, c=c, fed=fed, twice=twice)
    if not isinstance(outcome, dict):
        raise Feedback(
            f"evaluate returned something of type {outcome}, no dict.",
            hint="From node to array, for all that ran.",
        )
    return x, w, c, outcome


@check("evaluate", weight=2)
def values_are_those_of_the_operators(student, rng):
    """placeholders, variables, constants and operators have their values"""
    x, w, c, outcome = ask(student, rng)
    d = x - w
    right = {"p": x, "v": w, "difference": d, "scaled": d * c, "total": d * c + d}
    close(
        outcome["values"],
        right,
        called="evaluate([total], {p: x}, {v: w}), by name",
        hint="Fed, constant, variable, or computed: each node's value comes from one of these. A "
        "variable's is the state's, not its initial one, and no run knows what the last one had.",
    )


@check("evaluate", requires="values_are_those_of_the_operators")
def each_operator_runs_once(student, rng):
    """what is needed runs once, though two use it, and nothing else runs"""
    for twice in (False, True):
        runs = ask(student, rng, twice=twice)[-1]["ran"]
        if runs != {"difference": 1, "scaled": 1, "total": 1}:
            raise Feedback(
                f"evaluate of three operators, one of them used twice, ran {runs}.",
                hint="needed() has every node once. Compute it once, and look it up afterwards.",
            )


@check("evaluate", weight=2, requires="values_are_those_of_the_operators")
def a_fed_node_is_not_computed(student, rng):
    """any node may be fed: it is not computed, nor is what lies behind it"""
    x, w, c, outcome = ask(student, rng, fed="difference")
    hint = "Ask whether a node is fed before you ask what kind of node it is."
    close(
        outcome["values"].get("total"), x * c + x, called="evaluate with an operator fed", hint=hint
    )
    if outcome["ran"] != {"scaled": 1, "total": 1}:
        raise Feedback(
            f"evaluate with the node `difference` fed ran {outcome['ran']}.",
            hint=hint,
        )
    x, w, c, outcome = ask(student, rng, fed="v")
    hint = "Any node may be fed, a variable too, and the feed wins over the state."
    right = (w - x) * c + (w - x)
    close(outcome["values"]["total"], right, called="evaluate with a variable fed", hint=hint)
    x, w, c, outcome = ask(student, rng, fed="v", scale=0.0)
    hint = "Zeros are a feed, too. Is the node among the feeds, whatever it is fed?"
    close(outcome["values"]["total"], w * c + w, called="evaluate with zeros fed", hint=hint)
    x, w, c, outcome = ask(student, rng, fed="c")
    hint = "Any node may be fed, a constant too, and the feed wins over its value."
    right = (x - w) * x + (x - w)
    close(outcome["values"]["total"], right, called="evaluate with a constant fed", hint=hint)


@check("evaluate", requires="values_are_those_of_the_operators")
def feeds_and_state_stay_as_they_are(student, rng):
    """the dicts that were handed in are the same afterwards"""
    for fed in (None, "v"):
        if not ask(student, rng, fed=fed)[-1]["unchanged"]:
            raise Feedback(
                "evaluate changed the dict of the feeds or of the state.",
                hint="The next run has the same dicts and other values. Where do yours belong?",
            )
    w = rng.normal(size=3).astype(np.float32)
    hint = "The value of an assignment is a value like any other here. Who writes, and when?"
    called = "the state after evaluate of an assignment"
    close(student.probe(state_after_assignment, w=w), w, called=called, hint=hint)


def state_after_assignment(w):
    """Return a variable's value in the state after `evaluate` of its assignment."""
    if "assign" not in globals():  # the notebook defines it later: nothing can be assigned yet
        return w
    v = Variable(np.zeros(3), "v")
    state = {v: w}
    evaluate([record(AssignOp(v), [v + 1.0])], {}, state)  # `assign` comes later in the lab
    return state[v]


def without_a_value(fed):
    """Evaluate with a placeholder or a variable that has no value; return what is said."""
    p, v = Placeholder((2,), "the_batch"), Variable(np.zeros(2), "the_weight")
    feeds = {p: np.ones(2, np.float32)} if fed else {}
    state = {} if fed else {v: np.ones(2, np.float32)}
    try:
        evaluate([p + v], feeds, state)
    except ValueError as error:
        return str(error)
    except Exception as error:
        return f"no ValueError but {error!r}"
    return "nothing"


@check("evaluate")
def a_missing_value_is_named(student, rng):
    """a placeholder that is not fed, or an uninitialised variable, is a ValueError that names it"""
    for fed, name in ((False, "the_batch"), (True, "the_weight")):
        message = student.probe(without_a_value, fed=fed)
        if name not in message or message.startswith("no ValueError"):
            raise Feedback(
                f"evaluate without a value for {name}: got {message[:80]}, expected a ValueError.",
                hint="Put node.name into its message: whoever reads it has a graph of a thousand "
                "nodes.",
            )


# 3. gradients


def slopes(which, arrays, again):
    """Build one of the expressions below; return its gradients (of its gradients), evaluated."""
    import minitorch as mt
    from minitorch.op import Op

    class Twice(Op):
        def compute(self, xp, x):
            return x * 2.0

        def gradient(self, out_grad, node):
            return out_grad * 2.0

    class Pick(Op):
        def compute(self, xp, like, x):
            return x

        def gradient(self, out_grad, node):
            return None, out_grad

    sources = wanted = [Placeholder(a.shape, f"p{i}") for i, a in enumerate(arrays)]
    feeds = dict(zip(sources, arrays))
    if which == "shared":
        (s,) = sources
        loss = (s * s + s * s * s).sum()
    elif which == "layer":
        x, w, b = sources
        loss = (mt.exp(x @ w + b) * (x @ w)).sum()
    elif which == "unused":
        loss = (sources[0] * 3.0).sum()
    elif which == "own":
        s, t = sources
        loss = (Pick()(t, Twice()(s)) * s).sum()
    elif which == "itself":
        loss = sources[0]
    elif which == "between":
        (s,) = sources
        wanted = [s * s, as_node(2.0), s, s]
        loss = (wanted[0] * s).sum() * wanted[1]
    else:
        (s,) = sources
        a, b = s, s * 2.0
        for _ in range(8):
            a, b = a + b, a * 0.5 + b
        loss = (a * b).sum()
    adjoints = gradients(loss, wanted)
    if again and isinstance(adjoints, (list, tuple)):
        adjoints = gradients(adjoints[0].sum(), wanted)
    if not isinstance(adjoints, (list, tuple)) or len(adjoints) != len(wanted):
        return f"list of {len(wanted)}"
    kinds = [None if n is None else isinstance(n, Node) for n in adjoints]
    nodes = [n for n in adjoints if isinstance(n, Node)]
    values = evaluate(nodes, feeds, {})
    return kinds, [values.get(n) if isinstance(n, Node) else None for n in adjoints]


def gradients_of(student, which, *arrays, again=False):
    answer = student.probe(slopes, which=which, arrays=list(arrays), again=again)
    if isinstance(answer, str):
        raise Feedback(
            f"gradients(loss, wanted) gave no {answer}, which are as many as were wanted.",
            hint="One item for each of `wanted`, in that order.",
        )
    kinds, values = answer
    if False in kinds:
        raise Feedback(
            "gradients returned something that is no node.",
            hint="Nothing may run here: partial adjoints are made by operators, on nodes.",
        )
    return values


@check("gradients", weight=2)
def partial_adjoints_add_up(student, rng):
    """a node used several times gets the sum of its partial adjoints"""
    s = rng.normal(size=(3,)).astype(np.float32)
    (got,) = gradients_of(student, "shared", s)
    hint = "s * s is used twice. Does the second partial adjoint replace the first, or join it?"
    close(got, 2 * s + 3 * s**2, called="gradients of s*s + s*s*s", hint=hint)


@check("gradients", weight=2)
def a_layer_has_its_gradients(student, rng):
    """the running example's layer, bias and all"""
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in [(3, 2), (2, 2), (2,)])
    dx, dw, db = gradients_of(student, "layer", x, w, b)
    y = x @ w
    e = np.exp(y + b)
    hint = "Start from as_node(1.0). Then each operator's own gradient does the work."
    close(db, (e * y).sum(axis=0), called="gradients: bias", hint=hint)
    close(dw, x.T @ (e * y + e), called="gradients: weights", hint=hint)
    close(dx, (e * y + e) @ w.T, called="gradients: batch", hint=hint)


@check("gradients")
def users_deliver_before_a_node_hands_on(student, rng):
    """an adjoint is passed on only when it is complete"""
    s = rng.uniform(0.5, 1.0, size=(2,)).astype(np.float32)
    (got,) = gradients_of(student, "ladder", s)
    a, b = 1.0, 2.0
    for _ in range(8):
        a, b = a + b, a * 0.5 + b
    hint = "In which order do nodes get their turn? Who has to come before whom?"
    close(got, 2 * a * b * s, called="gradients of a ladder", hint=hint)


@check("gradients")
def a_rule_may_give_a_node_or_a_tuple(student, rng):
    """an operator's rule may give a node for its one input, or a tuple with None in it"""
    s, t = rng.normal(size=(2, 3)).astype(np.float32)
    hint = "One input: a node, which is no tuple yet. No gradient for an input: None."
    try:
        got = gradients_of(student, "own", s, t)
    except StudentError as error:
        raise Feedback(f"gradients raised {str(error).rstrip('. ')}.", hint=hint) from error
    close(got, [4 * s, None], called="gradients of twice(s) * s", hint=hint)


@check("gradients")
def what_does_not_matter_has_none(student, rng):
    """None for a node that the loss does not depend on, and 1 for the loss itself"""
    s, t = rng.normal(size=(2,)).astype(np.float32), rng.normal(size=(3,)).astype(np.float32)
    got = gradients_of(student, "unused", s, t)
    hint = "No path, no gradient: adjoint.get(node) says so by itself."
    close(got, [np.full(2, 3.0, np.float32), None], called="gradients(3 * s, [s, t])", hint=hint)
    got = gradients_of(student, "itself", np.float32(2.0) * np.ones(()))
    close(got, [np.float32(1.0)], called="gradients(s, [s])", hint="By how much does s grow?")


@check("gradients", requires="partial_adjoints_add_up")
def any_node_may_be_wanted(student, rng):
    """the gradient by a node that an operator made, and by a constant"""
    s = rng.uniform(0.5, 1.0, size=(3,)).astype(np.float32)
    got = gradients_of(student, "between", s)
    hint = "`wanted` holds nodes of any kind. Whose adjoints do you still have at the end?"
    called = "gradients(c (m * s).sum(), [m, c, s, s]), m = s*s"
    close(got, [2 * s, (s**3).sum(), 6 * s * s, 6 * s * s], called=called, hint=hint)


def rules_asked(depth):
    """Return how often each operator's rule was asked in a graph of many paths, two wanted.

    A rule that is asked a thousand times in all says no more.
    """
    from minitorch.op import KeepsSpec

    asked = [0] * depth

    class Twice(KeepsSpec):
        def __init__(self, level):
            self.level = level

        def compute(self, xp, a, b):
            return a + b

        def gradient(self, out_grad, node):
            asked[self.level] += 1
            if sum(asked) > 1000:
                raise RuntimeError("asked too often")
            return out_grad, out_grad

    sources = [Placeholder((), "p"), Placeholder((), "q")]
    value = record(Twice(0), sources)
    for level in range(1, depth):
        value = record(Twice(level), [value, value])
    try:
        gradients(value, sources)
    except RuntimeError:
        if sum(asked) <= 1000:
            raise
    return asked


@check("gradients", requires="partial_adjoints_add_up")
def each_rule_is_asked_once(student, rng):
    """one sweep: each operator's rule is asked once, however many paths and wanted nodes"""
    asked = student.probe(rules_asked, depth=int(rng.integers(25, 30)))
    if max(asked) > 1:
        often = "more than 1,000" if sum(asked) > 1000 else f"{max(asked)}"
        raise Feedback(
            f"In a graph of {len(asked)} operators, two nodes wanted, one operator was asked for "
            f"its gradients {often} times.",
            hint="Each time it adds nodes that a run has to compute. When is an adjoint complete?",
        )


@check("gradients")
def gradients_have_gradients(student, rng):
    """the nodes can be differentiated again"""
    s = rng.normal(size=(3,)).astype(np.float32)
    (got,) = gradients_of(student, "shared", s, again=True)
    hint = "Which step of yours makes an array where a node would do?"
    close(got, 2 + 6 * s, called="gradients of the gradient of s*s + s*s*s", hint=hint)


# 4. Session


def in_a_session(script, a, b):
    """Run a script of runs in a session of two variables; return what each gave, and the end."""
    first, second = Variable(a, "one"), Variable(b, "two")
    feed = Placeholder((), "feed")
    fetch = {
        "exchange": [assign(first, second), assign(second, first)],
        "turned": [assign(second, first), assign(first, second)],
        "double": assign(first, first * 2.0),
        "both": [first, assign(first, first * 2.0), first + second],
        "sum": first + second,
        "list": [first, second],
        "list of one": [second],
        "one twice": [first, second, first],
        "fed": assign(first, feed + 1.0),
        "aside": [assign(first, first * 2.0) * 0.0, second][1],
        "group": group(assign(first, first * 2.0), assign(second, second * 3.0)),
        "over": first + second,
        "zero": first + second,
    }
    behind = assign(first, first * 2.0) + 1.0
    fetch |= {"past": behind * 2.0, "double fed": fetch["double"]}
    feeds = {"fed": {feed: a}, "over": {first: a + 7.0}, "zero": {first: 0.0}, "past": {behind: b}}
    feeds["double fed"] = feeds["over"]
    session, other = Session(), Session()
    for s in (session, other):
        s.run(initialize(first, second))
    try:
        session.run(first)
    except ValueError:
        return "uninitialised"
    gave = []
    for word in script:
        got = session.run(fetch[word], feeds.get(word))
        many = isinstance(got, (list, tuple))
        gave.append([np.array(g) for g in got] if many else np.array(got))
    return gave, [session.run(first), session.run(second)], [other.run(first), other.run(second)]


def a_session(student, script, a, b):
    answer = student.probe(in_a_session, script=script, a=a, b=b)
    if answer == "uninitialised":
        raise Feedback(
            "After session.run(a group of assignments) the variables have no value.",
            hint="A group is fetched for what is behind it: an assignment counts wherever it was "
            "needed, not only where it was fetched itself.",
        )
    return answer


def numbers(rng):
    return (float(x) for x in rng.uniform(1, 5, size=2).round(3))


@check("Session", weight=2)
def a_run_gives_what_was_fetched(student, rng):
    """a node gives an array, a list of nodes a list, with feeds and without"""
    a, b = numbers(rng)
    gave, _, _ = a_session(student, ["sum", "list", "fed", "list of one"], a, b)
    twice, _, _ = a_session(student, ["one twice"], a, b)
    hint = "values[node] for each fetch, in order; a list only where a list was asked for."
    close(gave[0], np.float32(a + b), called="session.run(one + two)", hint=hint)
    close(gave[1], [np.float32(a), np.float32(b)], called="session.run([one, two])", hint=hint)
    close(gave[2], np.float32(a + 1), called="session.run(an assign node, with a feed)", hint=hint)
    close(gave[3], [np.float32(b)], called="session.run([two])", hint=hint)
    called = "session.run([one, two, one])"
    close(twice[0], [np.float32(x) for x in (a, b, a)], called=called, hint=hint)


@check("Session", weight=2)
def assignments_last(student, rng):
    """what was assigned is there in the next run, and in this session alone"""
    a, b = numbers(rng)
    _, end, other = a_session(student, ["double", "double", "sum"], a, b)
    hint = "Values of assign nodes go into self.state, under node.op.variable."
    close(
        end, [np.float32(4 * a), np.float32(b)], called="the state after doubling twice", hint=hint
    )
    _, fed_end, _ = a_session(student, ["double fed"], a, b)
    called, right = "the state after doubling `one`, fed", [np.float32(2 * (a + 7)), np.float32(b)]
    close(fed_end, right, called=called, hint="What ran and assigns is written, fed or not.")
    hint = "Another session has a state of its own. Where is yours kept?"
    close(other, [np.float32(a), np.float32(b)], called="the other session's state", hint=hint)
    _, end, _ = a_session(student, ["group", "fed"], a, b)
    hint = "A group is fetched for what is behind it: assignments count wherever they were needed."
    close(end, [np.float32(a + 1), np.float32(3 * b)], called="after a group", hint=hint)


@check("Session", weight=2, requires="assignments_last")
def all_reads_come_before_all_writes(student, rng):
    """every read of a run sees the state before the run"""
    a, b = numbers(rng)
    for word in ("exchange", "turned"):
        _, end, _ = a_session(student, [word], a, b)
        hint = "Does the second assignment see the first one's result? First compute all of it."
        close(end, [np.float32(b), np.float32(a)], called=f"one and two, {word}d", hint=hint)
    gave, _, _ = a_session(student, ["both"], a, b)
    hint = "Beside its assignment, a variable still shows the value from before the run."
    right = [np.float32(a), np.float32(2 * a), np.float32(a + b)]
    close(gave[0], right, called="run([one, assign(one, 2 one), one + two])", hint=hint)


@check("Session", requires="assignments_last")
def what_is_not_fetched_writes_nothing(student, rng):
    """an assignment that nothing fetched needs has no effect, and what is fed is not kept"""
    a, b = numbers(rng)
    _, end, _ = a_session(student, ["aside", "sum"], a, b)
    hint = "Only nodes that ran may write. Which are in the values of this run?"
    close(end, [np.float32(a), np.float32(b)], called="the state after fetching others", hint=hint)
    gave, end, _ = a_session(student, ["past"], a, b)
    called, right = "run((assign(one, 2 one) + 1) * 2) with the sum fed", np.float32(2 * b)
    close(gave, [right], called=called, hint="A fed node has its value already.")
    hint = "Behind a fed node nothing is needed: did that assignment run?"
    close(end, [np.float32(a), np.float32(b)], called=f"the state after {called}", hint=hint)
    gave, end, _ = a_session(student, ["over", "zero"], a, b)
    hint = "What is fed counts in this run, zero too."
    right = [np.float32(a + 7.0 + b), np.float32(b)]
    close(gave, right, called="run(one + two) with a variable fed, then with 0 fed", hint=hint)
    hint = "A feed is no assignment: it holds for one run. Which values go into the state?"
    close(
        end, [np.float32(a), np.float32(b)], called="the state after a variable was fed", hint=hint
    )


def runs_of_a_session(start):
    """Fetch two nodes that share an operator, then a variable, and change it; return all three."""
    import numpy as np

    from minitorch.op import KeepsSpec

    ran = []

    class Noted(KeepsSpec):
        def compute(self, xp, x):
            ran.append(None)
            return x * 1.0

    v = Variable(start, "v")
    shared = record(Noted(), [v])
    session = Session()
    session.run(initialize(v))
    session.run([shared + 1.0, shared * 2.0])
    before = session.run(v)
    session.run(assign(v, v + 1.0))
    return len(ran), np.array(before), np.array(session.run(v))


@check("Session", requires="assignments_last")
def a_run_is_one_evaluation(student, rng):
    """two fetches share what they need, and what a run gave stays as it was"""
    start = rng.normal(size=3).astype(np.float32)
    ran, before, after = student.probe(runs_of_a_session, start=start)
    if ran != 1:
        raise Feedback(
            f"A run of two nodes that share an operator ran it {ran} times.",
            hint="A PrintOp there would print as often. How many evaluations has a run?",
        )
    close(after, start + 1, called="v after assign(v, v + 1)")
    hint = "The caller still has the array from before. May the new value go into its memory?"
    close(before, start, called="what run(v) gave, after v was assigned anew", hint=hint)


def a_buffer_that_is_used_again(value):
    """Assign a fed array, then change that array; return the variable."""
    import numpy as np

    v, feed = Variable(np.zeros(2), "v"), Placeholder((2,), "feed")
    session, buffer = Session(), np.full(2, value, np.float32)
    session.run(assign(v, feed), {feed: buffer})
    buffer[:] = -1.0
    return session.run(v)


@check("Session", hidden=True, weight=0.5, requires="assignments_last")
def the_state_is_the_sessions_own(student, rng):
    """a variable keeps its value when the array that was fed to it is changed"""
    got = student.probe(a_buffer_that_is_used_again, value=3.0)
    hint = (
        "The caller may fill the same array anew for the next batch. Whose array is in the state?"
    )
    close(got, np.full(2, 3.0, np.float32), called="a variable assigned from a feed", hint=hint)


# 5. minimize


def descended(lr, momentum, targets, starts, steps):
    """Minimise the squared distance of two variables to targets; return their values by step."""
    variables = [Variable(s, f"v{i}") for i, s in enumerate(starts)]
    loss = ((variables[0] - targets[0]) ** 2).sum() + (
        variables[0].sum() * (variables[1] - targets[1]) ** 2
    ).sum()
    train = (
        minimize(loss, variables, lr, momentum) if momentum >= 0 else minimize(loss, variables, lr)
    )
    session = Session()
    session.run(initialize(loss, train))
    path = []
    for _ in range(steps):
        session.run(train)
        path.append([np.array(v) for v in session.run(variables)])
    slots = [n for n in every_node(train) if isinstance(n, Variable)]
    return path, len(slots)


def by_hand(lr, momentum, targets, starts, steps):
    a, b = (np.array(s, np.float64) for s in starts)
    va, vb = np.zeros_like(a), np.zeros_like(b)
    path = []
    for _ in range(steps):
        ga = 2 * (a - targets[0]) + ((b - targets[1]) ** 2).sum()
        gb = 2 * a.sum() * (b - targets[1])
        va, vb = momentum * va + ga, momentum * vb + gb
        a, b = a - lr * va, b - lr * vb
        path.append([a.astype(np.float32), b.astype(np.float32)])
    return path


def task(rng):
    return {
        "lr": float(rng.uniform(0.01, 0.03)),
        "targets": [rng.normal(size=3).astype(np.float32), rng.normal(size=2).astype(np.float32)],
        "starts": [rng.uniform(0.5, 1, size=3), rng.normal(size=2)],
    }


FIRST_STEP = "After one step the velocity is the gradient. Against it, and lr times as far."


def compare_paths(student, rng, momentum, steps, hint=FIRST_STEP):
    arguments = task(rng)
    try:
        path, slots = student.probe(descended, momentum=momentum, steps=steps, **arguments)
    except StudentError as error:
        failure = f"minimize of a loss of two variables, (3,) and (2,), or its run, raised {str(error).rstrip('. ')}."
        raise Feedback(failure, hint="Whose velocity has which shape?") from error
    right = by_hand(momentum=0.9 if momentum < 0 else momentum, steps=steps, **arguments)
    momentum_text = f"momentum {momentum:.3g}" if momentum >= 0 else "momentum left out"
    for step, (got, expected) in enumerate(zip(path, right, strict=True), 1):
        called = f"the variables after step {step} (lr {arguments['lr']:.3g}, {momentum_text})"
        direction = FIRST_STEP if step == 1 else hint
        close(got, expected, called=called, hint=direction, rtol=2e-4, atol=2e-6)
    return slots


@check("minimize", weight=2, timeout_s=2.5)
def the_first_step_goes_downhill(student, rng):
    """one step moves each variable by lr times its gradient, from the old values"""
    compare_paths(student, rng, 0.9, 1)


@check("minimize", weight=2, timeout_s=2.5)
def the_velocity_is_remembered(student, rng):
    """several steps follow w -= lr * v with v = momentum * v + g, v the new one"""
    hint = "Which v moves w: the variable, which still has the old one, or the node for the new?"
    compare_paths(student, rng, 0.7, 4, hint)


@check("minimize", timeout_s=2.5)
def without_momentum_it_is_plain_descent(student, rng):
    """momentum 0 is gradient descent, and 0.9 is what one gets without asking"""
    compare_paths(student, rng, 0.0, 3, "momentum * velocity + gradient: with momentum 0?")
    compare_paths(student, rng, -1.0, 2, "The default of `momentum` is 0.9.")


@check("minimize", requires="the_velocity_is_remembered", timeout_s=2.5)
def each_variable_has_its_own_slot(student, rng):
    """one slot a variable"""
    slots = compare_paths(student, rng, 0.5, 2, "Each variable has a velocity of its own shape.")
    if slots != 4:
        raise Feedback(f"Two variables, and {slots - 2} slots instead of 2.")
    shared, of_one_name, asked = student.probe(slots_of_two_optimizers)
    hint = "What else has this name, or this variable? Each call makes its slots anew."
    if shared:
        raise Feedback(f"Two calls of minimize, on the same variables, share {shared}.", hint=hint)
    if of_one_name != 2:
        raise Feedback(f"Two variables of one name have {of_one_name} slots.", hint=hint)
    if asked != 1:
        raise Feedback(
            f"minimize for two variables asked an operator of the loss for its rule {asked} times.",
            hint="One sweep gives the gradients of all variables.",
        )


def slots_of_two_optimizers():
    """Return (slots that two optimizers share, slots of two variables of one name, rules asked)."""
    from minitorch.op import KeepsSpec

    asked = []

    class Noted(KeepsSpec):
        def compute(self, xp, x):
            return x * 1.0

        def gradient(self, out_grad, node):
            asked.append(None)
            return out_grad

    variables = [Variable(np.zeros(2), "w"), Variable(np.zeros(2), "w")]
    loss = record(Noted(), [(variables[0] * variables[1]).sum()])
    one = minimize(loss, variables, 0.1)
    rules = len(asked)
    other = minimize(loss * 2.0, variables, 0.1)
    first, second = (
        {n for n in every_node(train) if isinstance(n, Variable)} - set(variables)
        for train in (one, other)
    )
    return len(first & second), len(first), rules


# 6. PrintOp


def printed(x, out_grad, label):
    """Put a PrintOp on the way; return what came, the gradient, and what was printed."""
    import contextlib
    import io

    import minitorch as mt

    p = Placeholder(x.shape, "p")
    look = PrintOp(label)(p)
    loss = (look * look * out_grad).sum()
    (slope,) = gradients(loss, [p])
    texts = []
    for _ in range(2):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            values = evaluate([look, slope], {p: x}, {})
        texts.append(text.getvalue())
    op = PrintOp(label)
    with contextlib.redirect_stdout(io.StringIO()):
        result = op(mt.tensor(x, requires_grad=True))
    eager = op.gradient(mt.tensor(out_grad), result)
    (eager,) = eager if isinstance(eager, tuple) else (eager,)
    return values[look], values[slope], eager.detach().numpy(), texts


def look_at_print(student, rng):
    x, v = rng.normal(size=(2, 3)).astype(np.float32)
    label = f"value {int(rng.integers(100, 999))}"
    try:
        return x, v, label, student.probe(printed, x=x, out_grad=v, label=label)
    except StudentError as error:
        raise Feedback(
            f"A model with a PrintOp on the way, or its gradient, raised {error}.",
            hint="Print, and then return what came in; and what does gradient return, in which "
            "shape? What arrives at the result is an adjoint.",
        ) from error


@check("PrintOp", weight=2)
def the_value_passes_unchanged(student, rng):
    """the result is the input"""
    x, _, _, results = look_at_print(student, rng)
    close(results[0], x, called="PrintOp(label)(x)", hint="Print, and then return what came in.")


@check("PrintOp", weight=2)
def the_adjoint_passes_unchanged(student, rng):
    """the adjoint passes unchanged, on nodes and on tensors"""
    x, v, _, results = look_at_print(student, rng)
    hint = "The result is x itself. What arrives at it belongs to x, all of it."
    close(results[2], v, called="the gradient through PrintOp, on tensors", hint=hint)
    close(results[1], 2 * x * v, called="the gradient through PrintOp, on nodes", hint=hint)


@check("PrintOp", weight=2, requires="the_value_passes_unchanged")
def each_run_prints_label_and_value(student, rng):
    """each run prints the label and the value"""
    x, _, label, (_, _, _, texts) = look_at_print(student, rng)
    for text in texts:
        if label not in text:
            raise Feedback(
                "A run printed no label.", hint="print(self.label, ...) belongs into compute."
            )
        if text.count(label) != 1:
            raise Feedback(
                f"A run of the value and its gradient printed the label {text.count(label)} times.",
                hint="One line a run, for the value. What does the gradient compute?",
            )
        printed = [float(n) for n in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", text)]
        if any(min(abs(n - value) for n in printed) > 0.01 for value in x):
            raise Feedback(
                "A run did not print the value.", hint="compute has the array: print it."
            )


# 7. Plan


def planned(x, w, b, new_w):
    """Plan the running example with an assignment; run it on two states and two batches.

    Before it runs nodes lose their inputs, for good: all was to be decided by then.
    """
    import minitorch as mt
    from lessons.graphs.nodes import every_node

    p, t = Placeholder((None, 2), "p"), Placeholder((None, 3), "t")
    v, u = Variable(w, "v"), Variable(b, "u")
    idle = Placeholder((), "idle")
    h = mt.exp(p @ v - u)
    apart = h * 0.5 - t
    loss = (apart * apart).sum()
    moved = assign(v, v - 0.1 * h.sum())
    plan = Plan([loss, moved, h, p, h], [idle, t, p])
    for node in every_node(loss, moved):
        node.inputs = ()
    Node.inputs = property()  # neither read nor set, on copies of nodes either
    try:
        state = {v: w, u: b}
        first = [np.array(a) for a in plan(state, 0.0, x[1], x[0])]
        middle = np.array(state[v])
        state[v] = new_w
        second = [np.array(a) for a in plan(state, 0.0, x[3], x[2])]
    finally:
        del Node.inputs
    return first, middle, second, [i is None for i in plan.inputs]


def planned_from_the_middle(x, w, b):
    """Plan the same, given what exp is computed from, then given a variable; return both losses."""
    import minitorch as mt

    p, t = Placeholder((None, 2), "p"), Placeholder((None, 3), "t")
    v, u = Variable(w, "v"), Variable(b, "u")
    y = p @ v - u
    loss = ((mt.exp(y) * 0.5 - t) ** 2).sum()
    (got,) = Plan([loss], [y, t])({}, x[0] @ w - b, x[1])
    (by_variable,) = Plan([loss], [v, t, p])({v: -w, u: b}, w, x[1], x[0])
    return np.array(got), np.array(by_variable)


def by_numpy(x, t, w, b):
    h = np.exp(x @ w - b)
    return [((h * 0.5 - t) ** 2).sum(), w - np.float32(0.1) * h.sum(), h, x, h]


def a_plan(student, rng):
    x = [rng.normal(size=s).astype(np.float32) for s in [(4, 2), (4, 3), (2, 2), (2, 3)]]
    w, new_w = rng.normal(size=(2, 2, 3)).astype(np.float32) * 0.5
    b = rng.normal(size=3).astype(np.float32)
    try:
        results = student.probe(planned, x=x, w=w, b=b, new_w=new_w)
    except StudentError as error:
        raise Feedback(
            f"A plan of the running example, or its run, raised {str(error).rstrip('. ')}.",
            hint="Print the slots: does every feed, variable, constant and result go where the "
            "steps look for it? The inputs come in the order of `inputs`, needed or not. A run "
            "has the plan alone: the graph was taken apart before it.",
        ) from error
    return x, w, new_w, b, results


@check("Plan", weight=3)
def a_plan_computes_the_fetches(student, rng):
    """the fetches, in order, from the inputs given"""
    x, w, _, b, results = a_plan(student, rng)
    hint = (
        "Slots of the inputs in the order of `inputs`, slots of the fetches in the order of those."
    )
    close(results[0], by_numpy(x[0], x[1], w, b), called="plan(state, ...)", hint=hint)


@check("Plan", weight=2)
def variables_are_read_in_each_run(student, rng):
    """another run sees other inputs and the variables' present values"""
    x, _, new_w, b, results = a_plan(student, rng)
    hint = "What may be decided when the plan is made, and what must a run look up?"
    close(results[2], by_numpy(x[2], x[3], new_w, b), called="the plan, a second time", hint=hint)


@check("Plan", weight=2)
def assignments_change_the_state(student, rng):
    """an assignment that ran changes the state that was passed"""
    x, w, _, b, results = a_plan(student, rng)
    hint = (
        "An operator whose op is an AssignOp is computed like any other, and noted in writes too."
    )
    close(results[1], by_numpy(x[0], x[1], w, b)[1], called="state[v] after the plan", hint=hint)


@check("Plan", weight=2, requires="a_plan_computes_the_fetches")
def a_fed_operator_needs_no_step(student, rng):
    """any node may be an input, and it is not computed then; one that nothing needs has no slot"""
    x, w, _, b, results = a_plan(student, rng)
    hint = "What an input was computed from has no value here. Does your plan ask for it?"
    called = "a plan with an operator's node among its inputs"
    try:
        got = student.probe(planned_from_the_middle, x=x, w=w, b=b)
    except StudentError as error:
        raise Feedback(f"{called} raised {str(error).rstrip('. ')}.", hint=hint) from error
    close(got[0], by_numpy(x[0], x[1], w, b)[0], called=called, hint=hint)
    called, hint = "a plan with a variable among its inputs", "A feed wins over the state, too."
    close(got[1], by_numpy(x[0], x[1], w, b)[0], called=called, hint=hint)
    if results[3] != [True, False, False]:
        raise Feedback(
            "plan.inputs should hold None for an input that no fetch needs, and slots otherwise.",
            hint="slot.get(node) is None for a node that has none.",
        )


def a_planned_optimizer(target, by_plan, steps):
    """Train by a plan or by a session; return the loss before and the variable after each step."""
    v = Variable(np.zeros(2), "v")
    loss = ((v - target) ** 2).sum()
    train = minimize(loss, [v], 0.1)
    session, path = Session(), []
    session.run(initialize(train))
    plan = Plan([train, loss], [])
    for _ in range(steps):
        gave = plan(session.state) if by_plan else session.run([train, loss])
        path.append([np.array(gave[1]), np.array(session.run(v))])
    return path


@check("Plan", hidden=True, requires="assignments_change_the_state")
def training_by_plan_equals_training_by_session(student, rng):
    """your optimizer takes the same steps by plan and by session"""
    target = rng.normal(size=2).astype(np.float32)
    by_plan, by_session = (
        student.probe(a_planned_optimizer, target=target, by_plan=by_plan, steps=4)
        for by_plan in (True, False)
    )
    for step, (got, expected) in enumerate(zip(by_plan, by_session, strict=True), 1):
        close(got, expected, called=f"loss and variable, step {step}", rtol=1e-5)
