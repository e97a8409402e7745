"""Checks of lab 02: operators, topological order, the reverse sweep, second derivatives.

Expected values are closed forms in NumPy, float64, on inputs drawn anew. What runs beside the
learner's code is in the functions that `probe` sends.
"""

from contextlib import contextmanager

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close
from autograder.errors import StudentError

WITHHELD = ("torch:", "minitorch.optim.optimizer:Optimizer")
LAB = LabSettings(preload=("numpy", "minitorch"), withheld=WITHHELD)
USED_UP = "second time"  # of a graph that the library has gone through


# 1. Sum over broadcast


def run_sum_to_shape(grad, shape):
    """Return the learner's sum; the library's own function for it has no code meanwhile."""
    import minitorch as mt
    from autograder.student.withheld import withheld

    home = "minitorch.ops.shaping.broadcasting"
    with mt.no_grad(), withheld([f"{home}:sum_to", f"{home}:SumTo"], copies=True):
        return sum_to_shape(mt.tensor(grad), tuple(shape))  # a sum needs no history


def sum_copied_axes(grad, shape):
    """The sum over copied axes: those in front, and those of size 1."""
    front = grad.ndim - len(shape)
    ones = tuple(front + i for i, n in enumerate(shape) if n == 1 and grad.shape[front + i] != 1)
    return grad.sum(axis=(*range(front), *ones), keepdims=True).reshape(shape)


TOGETHER = "The shape is right. Each copy sends a share of its own: what are they all together?"


def compare_sums(student, rng, cases, hint):
    for big, small in cases:
        grad = rng.normal(size=big)
        got, expected = (
            student.probe(run_sum_to_shape, grad=grad, shape=small),
            sum_copied_axes(grad, small),
        )
        say = TOGETHER if big != small and np.shape(got) == expected.shape else hint
        close(got, expected, called=f"sum_to_shape({big} -> {small})", hint=say)


@check("sum_to_shape")
def axes_in_front_are_summed_away(student, rng):
    """axes that the input does not have are summed away"""
    hint = "Shapes are matched from the right: which axis did the broadcast put in front?"
    compare_sums(student, rng, [((3, 2), (2,)), ((4, 3, 2), (3, 2)), ((5, 5), (5,))], hint)


@check("sum_to_shape")
def axes_of_size_one_are_kept(student, rng):
    """axes of size 1 are summed, and stay with size 1"""
    hint = "An axis of size 1 was copied too, but the input has it: it must still be there."
    cases = [((3, 2), (3, 1)), ((3, 2), (1, 2)), ((2, 3, 4), (2, 1, 4)), ((3, 2), (1, 1))]
    compare_sums(student, rng, cases, hint)


@check("sum_to_shape", requires="axes_in_front_are_summed_away")
def equal_shapes_pass_unchanged(student, rng):
    """nothing is summed where nothing was broadcast"""
    hint = "No axis was copied here, so there is nothing to add up."
    compare_sums(student, rng, [((3, 2), (3, 2)), ((1, 2), (1, 2)), ((1,), (1,)), ((), ())], hint)


def differentiate_the_sum(grad, shape, weights):
    """Return the gradient of sum(sum_to_shape(grad) * weights) by grad."""
    import minitorch as mt

    leaf = mt.tensor(grad, requires_grad=True)
    loss = (sum_to_shape(leaf, tuple(shape)) * mt.tensor(weights)).sum()
    return mt.grad(loss, [leaf])[0]


@check(
    "sum_to_shape",
    requires=(
        "axes_in_front_are_summed_away",
        "axes_of_size_one_are_kept",
        "equal_shapes_pass_unchanged",
    ),
)
def the_sum_has_a_gradient(student, rng):
    """the result is made of operators, so that it can be differentiated again"""
    for shape in ((2,), (3, 1), (), (3, 2)):
        compare_sums(
            student, rng, [((3, 2), shape)], "First make the sum right, then its gradient."
        )
        grad, weights = rng.normal(size=(3, 2)), rng.normal(size=shape)
        hint = "A gradient that is differentiated again must remember how it was made: which of "
        hint += "your lines forgets it?"
        called = f"the gradient of sum_to_shape((3, 2) -> {shape})"
        try:
            got = student.probe(differentiate_the_sum, grad=grad, shape=shape, weights=weights)
        except StudentError as error:
            raise Feedback(f"{called} raised {str(error).rstrip('. ')}.", hint=hint) from error
        close(got, np.broadcast_to(weights, (3, 2)), called=called, hint=hint)


@check("sum_to_shape", hidden=True)
def any_broadcast_is_undone(student, rng):
    """both cases together, and down to a single number"""
    cases = [((3, 2), ()), ((3, 2), (1,)), ((2, 3, 4), (1, 4)), ((2, 1, 4), (1, 1)), ((1, 3), (3,))]
    compare_sums(student, rng, cases, "Try the two cases one after the other: first in front.")


# 2. Operators


def run_operator(name, arrays, out_grad, second, again=False):
    """Return (result, gradients, gradients of sum(gradient * second)), or why it is no operator.

    The rule is also asked alone, of inputs that want no gradient: it needs only numbers for that.
    With `again` the operator has computed another value before it is asked for gradients.
    """
    import minitorch as mt
    from autograder.student.withheld import withheld

    inputs = [mt.tensor(a, requires_grad=True) for a in arrays]
    kind, v = globals()[name], mt.tensor(out_grad, requires_grad=True)
    operator = kind()
    result = operator(*inputs)
    if again:
        operator(*(mt.tensor(u, requires_grad=True) for u in second))
    own = [c for c in getattr(kind, "__mro__", ()) if c.__module__ == kind.__module__]
    if not own or not isinstance(result.op, kind) or not any("gradient" in vars(c) for c in own):
        return f"{name} is not an operator with a `gradient` of its own"
    alone = kind()(*inputs)
    alone.inputs = tuple(value.detach() for value in inputs)
    rules = [f"minitorch.ops.elementwise.rows:{kind}.gradient" for kind in ("Unary", "Binary")]
    try:
        with withheld([*rules, "minitorch.ops.products.linalg:MatMul.gradient"], copies=True):
            alone.op.gradient(v.detach(), alone)
    except RuntimeError as error:
        if "require a gradient" in str(error) or "got a call" in str(error):
            return f"{name}: `gradient` asks the library for a gradient, whose rule this is to be"
    firsts = mt.grad(result, inputs, grad_outputs=v, create_graph=True)
    total = 0.0
    for g, u in zip(firsts, second, strict=True):
        total = total + (g * mt.tensor(u)).sum()
    try:
        seconds = mt.grad(total, [*inputs, v], allow_unused=True)
    except RuntimeError as error:
        return result, list(firsts), f"{type(error).__name__}: {error}"
    seconds = [
        a if a is not None else mt.zeros_like(i) for a, i in zip(seconds, [*inputs, v], strict=True)
    ]
    return result, list(firsts), seconds


def run_forward(name, arrays):
    """Return the result alone, or why it is no operator's: no rule is asked for.

    The operator has computed another value before.
    """
    import minitorch as mt

    kind, inputs = globals()[name], [mt.tensor(a, requires_grad=True) for a in arrays]
    operator = kind()
    operator(*(mt.tensor(1.0 - a) for a in arrays))
    result = operator(*inputs)
    own = [c for c in getattr(kind, "__mro__", ()) if c.__module__ == kind.__module__]
    if not own or not isinstance(result.op, kind) or not any("compute" in vars(c) for c in own):
        return f"{name} is not an operator with a `compute` of its own"
    return result.detach()


def ask_forward(student, rng, name, shapes):
    """Compute the operator `name` on random inputs; return them and the result."""
    arrays = [rng.normal(size=s) for s in shapes]
    return arrays, require_operator(student.probe(run_forward, name=name, arrays=arrays))


OWN = "A class of Op with the two methods: the chain rule of this one operation, in products and sums."


def require_operator(got):
    """Return what a probe of an operator returned; raise Feedback if it is none of the learner's."""
    if isinstance(got, str):
        raise Feedback(f"{got.rstrip('. ')}.", hint=OWN)
    return got


def ask_operator(student, rng, name, shapes, out_shape, again=False):
    """Run the operator `name` on random inputs and a 0; return them and what came out."""
    arrays = [rng.normal(size=s) for s in shapes]
    if arrays[0].size > 1:
        arrays[0].flat[0] = 0.0
    out_grad = rng.normal(size=out_shape)
    second = [rng.normal(size=s) for s in shapes]
    inputs = {"arrays": arrays, "out_grad": out_grad, "second": second, "again": again}
    got = student.probe(run_operator, name=name, **inputs)
    return arrays, out_grad, second, require_operator(got)


AFTER = "after the operator has computed another value"
AGAIN = (
    "One operator makes many values of a graph. Which inputs does `node` know, and which ones does "
    "your operator itself?"
)


def must_differentiate_again(seconds, name):
    if isinstance(seconds, str):
        raise Feedback(
            f"{name}: the gradient cannot be differentiated again: {seconds}.",
            hint="Is every step of `gradient` an operator on tensors, none on NumPy arrays?",
        )


LOOSE = (
    "The slope is right, and its own slope is not: which value in `gradient` has lost its history?"
)


@check("ExpOp")
def exp_computes(student, rng):
    """compute returns exp(x)"""
    (x,), got = ask_forward(student, rng, "ExpOp", [(2, 3)])
    hint = "xp.exp works on the array, and gives one of the same dtype."
    close(got, np.exp(x), called="ExpOp()(x)", hint=hint, same_dtype=True)


@check("ExpOp")
def exp_gradient_follows_the_chain_rule(student, rng):
    """the adjoint of x is the adjoint of the result times exp(x)"""
    hint = "Two factors: the derivative of exp at x, and what arrives from above."
    (x,), v, _, got = ask_operator(student, rng, "ExpOp", [(2, 3)], (2, 3))
    close(got[1][0], v * np.exp(x), called="ExpOp: adjoint of x", hint=hint)
    (x,), v, _, got = ask_operator(student, rng, "ExpOp", [(2, 3)], (2, 3), again=True)
    close(got[1][0], v * np.exp(x), called=f"ExpOp: adjoint of x, {AFTER}", hint=AGAIN)


@check("ExpOp")
def exp_gradient_has_a_gradient(student, rng):
    """the gradient of exp can be differentiated again"""
    (x,), v, (u,), got = ask_operator(student, rng, "ExpOp", [(3,)], (3,))
    must_differentiate_again(got[2], "ExpOp")
    close(got[2][0], v * np.exp(x) * u, called="ExpOp: second derivative", hint=LOOSE)
    close(got[2][1], np.exp(x) * u, called="ExpOp: derivative by the adjoint from above")


@check("MulOp")
def mul_computes(student, rng):
    """compute returns a * b, broadcast"""
    (a, b), got = ask_forward(student, rng, "MulOp", [(2, 3), (3,)])
    hint = "Plain * broadcasts by itself."
    close(got, a * b, called="MulOp()(a, b)", hint=hint, same_dtype=True)


def square(x, out_grad):
    """Return the gradient of the learner's product of x with itself."""
    import minitorch as mt

    leaf = mt.tensor(x, requires_grad=True)
    return mt.grad(MulOp()(leaf, leaf), [leaf], grad_outputs=mt.tensor(out_grad))[0]


@check("MulOp")
def mul_gradients_cross_over(student, rng):
    """each adjoint is the one from above times the other input"""
    growth = "If a grows by a little, by how much does a * b grow? Whose value decides?"
    for again, after, hint in ((False, "", growth), (True, f", {AFTER}", AGAIN)):
        (a, b), v, _, got = ask_operator(student, rng, "MulOp", [(2, 3), (2, 3)], (2, 3), again)
        close(got[1][0], v * b, called=f"MulOp: adjoint of a{after}", hint=hint)
        close(got[1][1], v * a, called=f"MulOp: adjoint of b{after}", hint=hint)
    x, v = rng.normal(size=(2, 2, 3))
    got = student.probe(square, x=x, out_grad=v)
    hint = "Both inputs are one value here. Each gets its own adjoint; who adds up the two?"
    close(got, 2 * v * x, called="MulOp()(x, x): the gradient by x", hint=hint)


@check("MulOp")
def mul_gradients_have_the_shapes_of_the_inputs(student, rng):
    """a broadcast input gets an adjoint of its own shape"""
    for shapes in ([(2, 3), (3,)], [(2, 1), (2, 3)], [(), (2, 3)]):
        (a, b), v, _, got = ask_operator(student, rng, "MulOp", shapes, (2, 3))
        hint = "One input was copied to fit. What happens to the adjoints of the copies?"
        called = f"MulOp on {shapes[0]} and {shapes[1]}"
        close(
            got[1][0], sum_copied_axes(v * b, a.shape), called=f"{called}: adjoint of a", hint=hint
        )
        close(
            got[1][1], sum_copied_axes(v * a, b.shape), called=f"{called}: adjoint of b", hint=hint
        )


@check("MulOp")
def mul_gradient_has_a_gradient(student, rng):
    """the gradients of a product can be differentiated again"""
    (a, b), v, (p, r), got = ask_operator(student, rng, "MulOp", [(2, 3), (2, 3)], (2, 3))
    must_differentiate_again(got[2], "MulOp")
    close(got[2][0], v * r, called="MulOp: second derivative by a", hint=LOOSE)
    close(got[2][1], v * p, called="MulOp: second derivative by b", hint=LOOSE)
    close(got[2][2], b * p + a * r, called="MulOp: derivative by the adjoint from above")
    (_, b), v, (p, r), got = ask_operator(student, rng, "MulOp", [(2, 3), (3,)], (2, 3))
    must_differentiate_again(got[2], "MulOp, b broadcast")
    called = "MulOp, b broadcast: second derivative by"
    close(got[2][0], v * r, called=f"{called} a", hint=LOOSE)
    close(got[2][1], (v * p).sum(axis=0), called=f"{called} b", hint=LOOSE)


@check("MatMulOp")
def matmul_computes(student, rng):
    """compute returns the matrix product"""
    hint = "Rows of a times columns of b: (N, K) and (K, M) give (N, M)."
    try:
        (a, b), got = ask_forward(student, rng, "MatMulOp", [(2, 3), (3, 4)])
    except StudentError as error:
        raise Feedback(
            f"MatMulOp on (2, 3) and (3, 4) raised {str(error).rstrip('. ')}.", hint=hint
        ) from error
    close(got, a @ b, called="MatMulOp()(a, b)", hint=hint, same_dtype=True)


@check("MatMulOp")
def matmul_gradient_of_the_left_factor(student, rng):
    """the adjoint of a is the one from above times b transposed"""
    (_, b), v, _, got = ask_operator(student, rng, "MatMulOp", [(3, 3), (3, 3)], (3, 3))
    hint = "Square matrices hide a wrong order. Take (N, K) @ (K, M) and write the shapes down."
    close(got[1][0], v @ b.T, called="MatMulOp: adjoint of a", hint=hint)


@check("MatMulOp")
def matmul_gradient_of_the_right_factor(student, rng):
    """the adjoint of b is a transposed times the one from above"""
    (a, _), v, _, got = ask_operator(student, rng, "MatMulOp", [(3, 3), (3, 3)], (3, 3))
    hint = "The adjoint of b is (K, M). Which product of a, (N, K), and (N, M) has that shape?"
    close(got[1][1], a.T @ v, called="MatMulOp: adjoint of b", hint=hint)


@check("MatMulOp")
def matmul_gradients_have_gradients(student, rng):
    """factors that are not square, and gradients that can be differentiated again"""
    (a, b), v, (p, r), got = ask_operator(student, rng, "MatMulOp", [(2, 5), (5, 3)], (2, 3))
    hint = "Each adjoint has the shape of its own input: write the shapes down."
    close(got[1][0], v @ b.T, called="MatMulOp: adjoint of a", hint=hint)
    close(got[1][1], a.T @ v, called="MatMulOp: adjoint of b", hint=hint)
    must_differentiate_again(got[2], "MatMulOp")
    close(got[2][0], v @ r.T, called="MatMulOp: second derivative by a", hint=LOOSE)
    close(got[2][1], p.T @ v, called="MatMulOp: second derivative by b", hint=LOOSE)


# 3. Topological order


def record_order(parents, constants=(), lines=None):
    """Return the order of a graph, node i made of its parents, as indices (-1: no node of it).

    Anything but a list or a tuple comes back as the name of its type, and Python's limit of
    recursion where it has changed. No list of the nodes is left when the order is asked for, as
    it would be the answer. Leaves among `constants` want no gradient. With `lines` the answer may run so
    many lines, and what comes back is how many it has run: -1 is more than that.
    """
    import sys

    import minitorch as mt

    class Join(mt.Op):
        def compute(self, xp, *arrays):
            return sum(arrays)

    def build():
        nodes = []
        for i, above in enumerate(parents):
            leaf = mt.tensor(1.0, requires_grad=i not in constants)
            nodes.append(Join()(*(nodes[a] for a in above)) if above else leaf)
        return nodes[-1], {id(node): i for i, node in enumerate(nodes)}

    def count(frame, event, argument):
        nonlocal ran
        ran += event == "line"
        if ran > lines:
            raise RuntimeError("too many lines")
        return count

    (output, place), ran, limit = build(), 0, sys.getrecursionlimit()
    before = sys.gettrace()
    if lines is not None:
        sys.settrace(count)
    try:
        order = topological_order(output)
    except RuntimeError:
        if lines is None or ran <= lines:
            raise
        return -1
    finally:
        sys.settrace(before)
        raised, _ = sys.getrecursionlimit(), sys.setrecursionlimit(limit)
    if lines is not None:
        return ran
    if not isinstance(order, (list, tuple)):
        return type(order).__name__
    return [place.get(id(value), -1) for value in order] if raised == limit else raised


def ask_order(student, parents, constants=()):
    """Return the learner's order of a graph as indices."""
    order = student.probe(record_order, parents=parents, constants=tuple(constants))
    if isinstance(order, int):
        raise Feedback(
            f"topological_order has moved Python's limit of recursion to {order:,} calls.",
            hint=OWN_STACK,
        )
    if isinstance(order, str):
        raise Feedback(
            f"topological_order returned a {order}, expected a list.",
            hint="The sweep goes through the order backwards: what can be reversed?",
        )
    return order


OWN_STACK = "Python's own stack is a thousand calls deep. Who else could remember where to go on?"


def find_reachable(parents):
    reached, waiting = set(), [len(parents) - 1]
    while waiting:
        node = waiting.pop()
        if node not in reached:
            reached.add(node)
            waiting += parents[node]
    return reached


def draw_graph(rng, size):
    """Parents of each node, one or two earlier ones; the first three nodes are leaves."""
    later = [sorted({int(i) for i in rng.integers(0, n, size=2)}) for n in range(3, size)]
    return [[], [], [], *later]


def chain(depth):
    """Parents in a chain, each value made of the one before twice."""
    return [[]] + [[i, i] for i in range(depth)]


def skip_ahead(depth):
    """Parents in a chain whose last value, and the third, also read the first: a short way."""
    ahead = [[i] for i in range(depth)]
    return [[], *ahead[:2], [2, 0], *ahead[3:], [0, depth, 2]]


@check("topological_order", requires="all_values_are_there")
def inputs_stand_before_their_users(student, rng):
    """every value stands after all of its inputs"""
    for parents in [skip_ahead(5), *(draw_graph(rng, size) for size in (4, 8, 30))]:
        size = len(parents)
        order = ask_order(student, parents)
        place = {node: i for i, node in reversed(list(enumerate(order)))}
        for node in order:
            later_inputs = [p for p in parents[node] if place.get(p, size) > place[node]]
            if later_inputs:
                raise Feedback(
                    f"In a graph of {size} values, one stands before one of its inputs.",
                    hint="A value may be appended only when all of its inputs are in the list.",
                )


@check("topological_order")
def each_value_occurs_once(student, rng):
    """a value with several users occurs once"""
    order = ask_order(student, chain(16))
    hint = "A value is reached once by each of its users. How do you know it again?"
    if len(order) != 17:
        raise Feedback(f"16 doublings make 17 values; the order has {len(order)}.", hint=hint)
    if order != list(range(17)):
        raise Feedback("16 doublings have one order alone, and this is another one.", hint=hint)


@check("topological_order")
def all_values_are_there(student, rng):
    """all values that the output depends on are there, and no others"""
    hint = "The list starts with leaves and ends with the output itself."
    few = "Here a leaf is the output, or wants no gradient, or a value has one or three inputs."
    for parents, constants, say in (
        (draw_graph(rng, 25), (), hint),
        ([[]], (), few),
        ([[], [0], [], [0, 1, 2], [3]], (), few),
        ([[], [], [1, 0], [2, 1]], (1,), few),
    ):
        order, needed = ask_order(student, parents, constants), find_reachable(parents)
        if set(order) != needed:
            lacking, strangers = len(needed - set(order)), len(set(order) - needed)
            raise Feedback(
                f"Of {len(needed)} values, {lacking} are missing, and {strangers} do not belong.",
                hint=say,
            )


@check("topological_order", requires="all_values_are_there")
def the_work_grows_with_the_values(student, rng):
    """ten times as many values take ten times as many lines of work, however many paths"""

    def lines_run(parents, allowed):
        ran = student.probe(record_order, parents=parents, lines=allowed)
        if ran < 0:
            raise Feedback(
                f"A graph of {len(parents)} values had you run more than {allowed:,} lines.",
                hint="Each value and each edge is looked at once. How much do you go through to "
                "see whether a value is known, or how often along each path?",
            )
        return ran

    for order in ((0, 1), (1, 0)):
        small, large = ([[], [0], *np.add.outer(range(n), order).tolist()] for n in (58, 598))
        lines_run(large, 15 * lines_run(small, 20_000))


@check("topological_order")
def a_deep_graph_is_no_problem(student, rng):
    """a chain of 20,000 values works, so nothing recurses"""
    depth = 20_000
    try:
        order = ask_order(student, [[]] + [[i] for i in range(depth)])
    except StudentError as error:
        raise Feedback(
            f"A chain of 20,000 values raised {str(error).rstrip('. ')}.", hint=OWN_STACK
        ) from error
    if order != list(range(depth + 1)):
        raise Feedback("A chain of 20,000 values comes out in another order.")


# 4. The reverse sweep


def run_gradients(which, arrays, times):
    """Return the gradients of one of the expressions below, the last of `times` sweeps.

    The library's own sweep has been there before and has used the graph up, for itself alone.
    """
    import minitorch as mt

    class ExpInAList(mt.Op):
        def compute(self, xp, x):
            return xp.exp(x)

        def gradient(self, out_grad, node):
            return [out_grad * mt.exp(node.inputs[0])]

    class Second(mt.Op):
        def compute(self, xp, x, y):
            return y * 1.0

        def gradient(self, out_grad, node):
            return None, out_grad

    leaves = inputs = [mt.tensor(a, requires_grad=True) for a in arrays]
    if which == "shared":
        s = leaves[0] * leaves[0]
        output = s + s * leaves[0]
    elif which == "list":
        output = ExpInAList()(leaves[0] * 2.0) * 3.0
    elif which == "layers":
        x, w, b = leaves
        output = (mt.exp(x @ w + b) * (x @ w)).sum()
    elif which == "unused":
        output = leaves[0] * 3.0
    elif which == "second":
        output = Second()(leaves[0].detach(), leaves[1]) * 3.0
    elif which == "between":
        inputs = [leaves[0] * leaves[0], leaves[0]]
        output = mt.exp(inputs[0] * 2.0)
    elif which == "itself":
        output = mt.exp(leaves[0] * 2.0)
        inputs = [output]
    elif which == "leaf":
        output = leaves[0]
        inputs = [output, output]
    elif which == "ladder":
        (s,) = leaves
        a, b = s, s * 2.0
        for _ in range(12):
            a, b = a + b, a * 0.5 + b
        output = a * b
    else:
        output = leaves[0] * 1.0
        for _ in range(20_000):
            output = output + leaves[0]
    output.sum().backward()
    for leaf in leaves:
        leaf.grad = None
    for _ in range(times):
        adjoints = gradients(output, inputs)
    if not isinstance(adjoints, (list, tuple)):
        return adjoints
    return list(adjoints)


@contextmanager
def refuse_library_sweep(name):
    """Turn the error of the library's sweep, whose graph is used up, into feedback."""
    try:
        yield
    except StudentError as error:
        if USED_UP not in str(error):
            raise
        raise Feedback(
            f"{name} calls the sweep of the library, which has been over this graph once and has "
            "let it go.",
            hint="Your own can go as often as it likes: what do `op` and `inputs` tell it?",
        ) from error


def ask_gradients(student, which, *arrays, times=1, count=None):
    count = count or len(arrays)
    with refuse_library_sweep("gradients"):
        answer = student.probe(run_gradients, which=which, arrays=list(arrays), times=times)
    if not isinstance(answer, list) or len(answer) != count:
        raise Feedback(
            f"gradients(output, inputs) with {count} inputs did not return a list of "
            f"{count} tensors.",
            hint="One gradient for each input, in the order of the inputs.",
        )
    return answer


@check("gradients")
def partial_adjoints_add_up(student, rng):
    """a value used several times gets the sum of its partial adjoints"""
    s = rng.normal(size=(3,))
    (got,) = ask_gradients(student, "shared", s)
    hint = "s*s is used twice. Does the second partial adjoint replace the first, or join it?"
    close(got, 2 * s + 3 * s**2, called="gradients(s*s + s*s*s, [s])", hint=hint)


@check("gradients")
def users_deliver_before_a_value_hands_on(student, rng):
    """an adjoint is passed on only when it is complete"""
    s = rng.normal(size=())
    (got,) = ask_gradients(student, "ladder", s)
    a, b = np.array([1.0, 0.0]), np.array([2.0, 0.0])  # a and b as multiples of s
    for _ in range(12):
        a, b = a + b, a * 0.5 + b
    hint = "In which order do values get their turn? Who has to come before whom?"
    close(got, 2 * a[0] * b[0] * s, called="gradients(ladder, [s])", hint=hint)


@check("gradients")
def a_layer_has_its_gradients(student, rng):
    """the running example, with a bias that is broadcast"""
    x, w, b = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), rng.normal(size=(2,))
    dx, dw, db = ask_gradients(student, "layers", x, w, b)
    z = x @ w
    e = np.exp(z + b)
    dz = e * z + e
    hint = "Start from an adjoint of ones. Then each operator's own gradient does the work."
    close(db, (e * z).sum(axis=0), called="gradients: bias", hint=hint)
    close(dw, x.T @ dz, called="gradients: weights", hint=hint)
    close(dx, dz @ w.T, called="gradients: inputs", hint=hint)


@check("gradients")
def an_operator_may_return_a_list(student, rng):
    """an operator's gradient may also be a list with one tensor for each input"""
    x = rng.normal(size=(2,))
    hint = "An operator returned [adjoint of x]. What did your sweep take that list for?"
    try:
        (got,) = ask_gradients(student, "list", x)
    except StudentError as error:
        raise Feedback(f"A gradient in a list raised {error!s}", hint=hint) from error
    close(got, 6 * np.exp(2 * x), called="gradients, from a list", hint=hint)


@check("gradients")
def an_input_may_have_none(student, rng):
    """where an operator has no gradient for an input, the others have theirs"""
    x, y = rng.normal(size=(2, 3))
    hint = "None says that this input gets nothing. What about the one behind it?"
    try:
        got = ask_gradients(student, "second", x, y)
    except StudentError as error:
        raise Feedback(f"A gradient of (None, a tensor) raised {error!s}", hint=hint) from error
    close(got, [np.zeros(3), np.full(3, 3.0)], called="gradients, from (None, a tensor)", hint=hint)


@check("gradients", requires="partial_adjoints_add_up")
def what_lies_between_has_a_gradient(student, rng):
    """the gradient by a value that is no leaf, beside those above and below it"""
    x = rng.uniform(0.1, 1.0, size=3)
    by_s, by_x = ask_gradients(student, "between", x, count=2)
    slope = 2 * np.exp(2 * x * x)
    hint = "`inputs` may hold results of operators. Who still knows their adjoints at the end?"
    close(by_s, slope, called="gradients(exp(2 s), [s, x]), s = x*x: s", hint=hint)
    hint = "x lies below s, and both are asked for. Does s still hand its adjoint on?"
    close(by_x, 2 * x * slope, called="gradients(exp(2 s), [s, x]), s = x*x: x", hint=hint)
    (by_itself,) = ask_gradients(student, "itself", x)
    hint = "By how much does the output grow if the output grows by a little?"
    close(by_itself, np.ones(3), called="gradients(y, [y])", hint=hint)
    got = ask_gradients(student, "leaf", x, count=2)
    hint = "A leaf may be the output, and an input may stand in the list twice."
    close(got, [np.ones(3)] * 2, called="gradients(x, [x, x])", hint=hint)


def count_rules_asked(depth):
    """Return (gradients, how often each rule was asked for them, `grad` that stood at a leaf).

    In a graph of `depth` levels with two ways from each to the next. A rule that is asked a
    thousand times in all says no more.
    """
    import minitorch as mt

    asked = [0] * depth

    class Twice(mt.Op):
        def __init__(self, level):
            self.level = level

        def compute(self, xp, a, b):
            return a + b

        def gradient(self, out_grad, node):
            asked[self.level] += 1
            if sum(asked) > 1000:
                raise RuntimeError("asked too often")
            return out_grad, out_grad

    leaf, other = (mt.tensor(np.ones(2), requires_grad=True) for _ in range(2))
    leaf.grad, value = mt.tensor(np.full(2, 7.0)), leaf
    for level in range(depth):
        value = Twice(level)(value, value if level else other)
    try:
        found = gradients(value, [leaf, other])
    except RuntimeError:
        if sum(asked) <= 1000:
            raise
        return None, asked, None
    return list(found), asked, leaf.grad


@check("gradients", requires="partial_adjoints_add_up")
def each_rule_is_asked_once(student, rng):
    """one pass: each operator is asked for its gradients once, however many paths and inputs"""
    got, asked, _ = student.probe(count_rules_asked, depth=int(rng.integers(25, 30)))
    if max(asked) > 1:
        often = "more than 1,000" if got is None else f"{max(asked)}"
        raise Feedback(
            f"In a graph of {len(asked)} operators and two inputs, one operator was asked for its "
            f"gradients {often} times.",
            hint="Its adjoint is complete when its turn comes, and the answer has a part for each "
            "input. Why ask again?",
        )
    close(got, [np.full(2, 2.0 ** (len(asked) - 1))] * 2, called="gradients of doublings")


@check("gradients", requires="partial_adjoints_add_up")
def nothing_is_stored_on_the_values(student, rng):
    """the `grad` of a leaf stays as it was"""
    _, _, kept = student.probe(count_rules_asked, depth=3)
    hint = "Where do your adjoints live while the sweep runs? Whose place is that?"
    if kept is None:
        raise Feedback("A leaf whose `grad` was 7 has None there after the sweep.", hint=hint)
    close(kept, np.full(2, 7.0), called="`grad` of a leaf, after the sweep", hint=hint)


@check("gradients")
def an_unused_input_has_zeros(student, rng):
    """an input that the output does not depend on has a gradient of zeros"""
    used, unused = rng.normal(size=(2,)), rng.normal(size=(2, 2))
    got = ask_gradients(student, "unused", used, unused)
    close(got[0], np.full(2, 3.0), called="gradients(3*a, [a, b]): a")
    close(got[1], np.zeros((2, 2)), called="gradients(3*a, [a, b]): b", hint="Of b's shape.")


@check("gradients")
def a_second_sweep_gives_the_same(student, rng):
    """nothing is left behind: a second call gives the same result"""
    s = rng.normal(size=(3,))
    (got,) = ask_gradients(student, "shared", s, times=3)
    hint = "Where are the adjoints of the first call when the second begins?"
    close(got, 2 * s + 3 * s**2, called="gradients, called three times", hint=hint)


def sweep_twice(x):
    """Return the gradient of the gradient of the sum of x**3."""
    import minitorch as mt

    leaf = mt.tensor(x, requires_grad=True)
    (slope,) = gradients((leaf * leaf * leaf).sum(), [leaf])
    (curvature,) = gradients(slope, [leaf])
    return curvature


@check("gradients", requires="partial_adjoints_add_up")
def a_gradient_has_a_gradient(student, rng):
    """a gradient is a value with op and inputs: a sweep over it gives the second derivative"""
    x = rng.normal(size=(3,))
    got = student.probe(sweep_twice, x=x)
    hint = "Adjoints come from operators. Which of your lines makes a value that has no `inputs`?"
    close(got, 6 * x, called="gradients of the gradient of x**3", hint=hint)


@check("gradients")
def a_deep_sweep_is_no_problem(student, rng):
    """a chain of 20,000 additions works"""
    (got,) = ask_gradients(student, "chain", rng.normal(size=()))
    close(got, 20_001.0, called="gradients of s + 20,000 s")


# 5. Second derivatives


def run_hessian_vector_product(which, x, v):
    import minitorch as mt

    functions = {
        "x exp x": lambda t: (t * mt.exp(t)).sum(),
        "cube of sum": lambda t: t.sum() * t.sum() * t.sum(),
        "quadratic": lambda t: ((t * t).sum() * t[0]).sum(),
    }
    leaf = mt.tensor(x, requires_grad=True)

    def use_graph_up(t):
        output = functions[which](t)
        output.backward()
        t.grad = None
        return output

    direction = mt.tensor(v)
    product = hessian_vector_product(use_graph_up, leaf, direction)
    return product, leaf.grad is None, leaf.detach(), direction.detach()


def ask_hessian_product(student, which, x, v):
    """Return H v as the learner's function gives it, by the learner's sweeps."""
    with refuse_library_sweep("hessian_vector_product"):
        answer = student.probe(run_hessian_vector_product, which=which, x=x, v=v)
    product, bare, *given = answer
    if not bare:
        hint = "What is known of x in between has a place of its own."
        raise Feedback("After hessian_vector_product x has a `grad`.", hint=hint)
    close(
        given, [x, v], called="[x, v] after hessian_vector_product", hint="Both are the caller's."
    )
    return product


@check("hessian_vector_product")
def a_diagonal_hessian(student, rng):
    """where the Hessian is diagonal: (x + 2) exp(x) v"""
    x, v = rng.normal(size=(2, 4))
    got = ask_hessian_product(student, "x exp x", x, v)
    hint = "The first sweep gives the slope. What must be made of slope and v before the second?"
    expected = (x + 2) * np.exp(x) * v
    close(got, expected, called="H v of sum(x exp(x))", hint=hint, same_dtype=True)


@check("hessian_vector_product")
def a_full_hessian(student, rng):
    """where all elements of the Hessian are equal: 6 sum(x) sum(v)"""
    x, v = rng.normal(size=(2, 4))
    got = ask_hessian_product(student, "cube of sum", x, v)
    hint = "Every element of H counts, not only the diagonal: sum after multiplying with v."
    close(got, np.full(4, 6 * x.sum() * v.sum()), called="H v of sum(x)**3", hint=hint)


@check("hessian_vector_product")
def x_may_have_any_shape(student, rng):
    """x and v may be matrices, as the weights of a layer are, or single numbers"""
    hint = "The slope and v may be matrices, or numbers. Which product of the two sums over all elements?"
    for shape in ((2, 3), (3, 3), ()):
        x, v = (rng.normal(size=shape) for _ in range(2))
        try:
            got = ask_hessian_product(student, "x exp x", x, v)
        except StudentError as error:
            failure = f"H v at an x of shape {shape} raised {str(error).rstrip('. ')}."
            raise Feedback(failure, hint=hint) from error
        expected = (x + 2) * np.exp(x) * v
        close(got, expected, called=f"H v of sum(x exp(x)), x of shape {shape}", hint=hint)


def record_places(x, v):
    """Return where `f` was computed while H v was, and how often its operator's rule was asked."""
    import minitorch as mt

    places, asked = [], []

    class Exp(mt.Op):
        def compute(self, xp, x):
            return xp.exp(x)

        def gradient(self, out_grad, node):
            asked.append(None)
            return out_grad * node  # so the second sweep comes by as well

    def f(t):
        places.append(np.array(t.detach().numpy()))
        return Exp()(t).sum()

    hessian_vector_product(f, mt.tensor(x, requires_grad=True), mt.tensor(v))
    return places, len(asked)


@check("hessian_vector_product", requires="a_full_hessian")
def f_is_computed_at_x_alone(student, rng):
    """f is computed at x and nowhere else: no differences"""
    x, v = rng.normal(size=(2, 9))
    places, _ = student.probe(record_places, x=x, v=v)
    elsewhere = sum(not np.array_equal(place, x) for place in places)
    if elsewhere:
        raise Feedback(
            f"hessian_vector_product computed f at {elsewhere} places besides x.",
            hint="Differences lose digits. The slope that your sweep returns is more than numbers: "
            "what can be done with a value that has an op and inputs?",
        )


@check("hessian_vector_product", requires="a_full_hessian")
def two_sweeps_are_enough(student, rng):
    """two sweeps, however many elements x has: no matrix"""
    x, v = rng.normal(size=(2, 9))
    _, asked = student.probe(record_places, x=x, v=v)
    if asked > 4:
        raise Feedback(
            f"For an x of 9 elements the operator of f was asked for its gradient {asked} times.",
            hint="A sweep for each row makes the whole matrix. Of which single number is the "
            "product a gradient?",
        )


@check("hessian_vector_product", hidden=True)
def a_hessian_that_depends_on_the_place(student, rng):
    """a Hessian with an arrow's shape"""
    x, v = rng.normal(size=(2, 5))
    hessian = 2 * x[0] * np.eye(5)
    hessian[0] += 2 * x
    hessian[:, 0] += 2 * x
    got = ask_hessian_product(student, "quadratic", x, v)
    hint = "Try an f whose slope at one element depends on another element of x."
    close(got, hessian @ v, called="H v of sum(x*x) x[0]", hint=hint)


# 6. A step


def run_sgd_step(arrays, grads, lr):
    """Return (new values, whether each wants gradients, whether each has a history, old values and gradients).

    The step is the second of two from the same place. What is no list comes back as its type's name.
    """
    import minitorch as mt

    leaves = [mt.tensor(a, requires_grad=True) for a in arrays]
    slopes = [leaf * 0.0 + mt.tensor(g) for leaf, g in zip(leaves, grads, strict=True)]
    sgd_step(list(leaves), list(slopes), lr)
    new = sgd_step(leaves, slopes, lr)
    if not isinstance(new, (list, tuple)):
        return type(new).__name__
    wants = [bool(p.requires_grad) for p in new]
    history = [p.op is not None for p in new]
    return [p.detach() for p in new], wants, history, [p.detach() for p in (*leaves, *slopes)]


def ask_sgd_step(student, rng):
    arrays, grads = [[rng.normal(size=s) for s in ((2, 3), (3,), (3,))] for _ in range(2)]
    lr = float(rng.uniform(0.1, 0.9))
    got = student.probe(run_sgd_step, arrays=arrays, grads=grads, lr=lr)
    if isinstance(got, str):
        hint = "The loop reads them by index, and more than once."
        raise Feedback(f"sgd_step returned a {got}, expected a list.", hint=hint)
    return arrays, grads, lr, got


@check("sgd_step")
def a_step_goes_against_the_gradient(student, rng):
    """each parameter moves by lr times its gradient, downhill"""
    arrays, grads, lr, (new, _, _, _) = ask_sgd_step(student, rng)
    expected = [a - lr * g for a, g in zip(arrays, grads, strict=True)]
    hint = "The gradient points uphill, and lr says how far to go. A step knows no earlier one."
    called = "the second sgd_step(parameters, grads, lr) from one place"
    close(new, expected, called=called, hint=hint, same_dtype=True)


@check("sgd_step", requires="a_step_goes_against_the_gradient")
def new_parameters_are_leaves(student, rng):
    """the new parameters want gradients and have no history"""
    _, _, _, (_, wants, history, _) = ask_sgd_step(student, rng)
    if any(history):
        raise Feedback(
            "A new parameter still has an `op`: it remembers the step that made it.",
            hint="What would the graph look like after a thousand steps?",
        )
    if not all(wants):
        raise Feedback(
            "A new parameter does not require a gradient.",
            hint="The next step needs its gradient too.",
        )


@check("sgd_step", requires="a_step_goes_against_the_gradient")
def old_parameters_stay(student, rng):
    """the parameters and the gradients passed in are not modified"""
    arrays, grads, _, (_, _, _, old) = ask_sgd_step(student, rng)
    close(old[:3], arrays, called="parameters after sgd_step", hint="Make new ones instead.")
    close(old[3:], grads, called="gradients after sgd_step", hint="Make a new product instead.")
