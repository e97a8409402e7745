"""Chains of products in a program of steps: found, counted, and put into another order."""

from collections.abc import Callable, Sequence

from lessons.graphs.programs import Program, Tree, emit_tree, users_of

Rule = Callable[[Program, int, dict[int, int]], int | None]
WORTH = 0.9  # of the work: rounding changes with the order, so it must be worth it


def rebuild(program: Program, rule: Rule) -> Program:
    """Return the program as `rule` rewrites it."""
    new, place = Program(), dict[int, int]()
    for i, step in enumerate(program.steps):
        replacement = rule(new, i, place)
        if replacement is None:
            replacement = new.keep(step, [place[j] for j in step.inputs])
        place[i] = replacement
    new.outputs = [place[i] for i in program.outputs]
    return new


def reordered(
    program: Program, chain_order: Callable[[list[int]], tuple[int, Tree]], shared: bool = False
) -> Program:
    """Return the program with each chain of products in the order that `chain_order` gives.

    A product that somebody else uses too ends a chain; with `shared` it is multiplied anew. An
    order that saves less than a tenth is left. What nobody uses any more is still there.
    """
    users = users_of(program)
    products = {i for i, step in enumerate(program.steps) if step.op == "matmul"}
    inner = {i for i in products if set(users[i]) <= products and (shared or len(users[i]) == 1)}

    def factors(i: int) -> list[int]:
        return [f for j in program.steps[i].inputs for f in (factors(j) if j in inner else [j])]

    def work(i: int) -> int:
        (rows, middle), (_, columns) = (program.steps[j].shape for j in program.steps[i].inputs)
        return rows * middle * columns + sum(work(j) for j in program.steps[i].inputs if j in inner)

    def rule(new: Program, i: int, place: dict[int, int]) -> int | None:
        if i not in products or (i in inner and not shared) or len(chain := factors(i)) < 3:
            return None
        shapes = [program.steps[j].shape for j in chain]
        least, tree = chain_order([s[0] for s in shapes] + [shapes[-1][1]])
        if least >= WORTH * work(i):
            return None
        return emit_tree(new, [place[j] for j in chain], tree)

    return rebuild(program, rule)


def from_the_left(sizes: Sequence[int]) -> Tree:
    """Return the tree that multiplies a chain as it is read."""
    tree: Tree = 0
    for k in range(1, len(sizes) - 1):
        tree = (tree, k)
    return tree


def products_of_products(program: Program) -> int:
    """Return how many products have a product among their inputs, transposes looked through."""

    def source(i: int) -> int:
        return source(program.steps[i].inputs[0]) if program.steps[i].op == "transpose" else i

    products = [step for step in program.steps if step.op == "matmul"]
    return sum(any(program.steps[source(j)].op == "matmul" for j in s.inputs) for s in products)
