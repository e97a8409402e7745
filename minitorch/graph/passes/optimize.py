"""`optimize`: the passes in order, each verified after it has run."""

from collections.abc import Collection, Sequence
from typing import Any

from ...errors import GraphError
from ..control.while_op import While
from ..core.node import Node
from ..core.order import keep_orders, list_needed
from ..core.structures import flatten
from ..core.verify import Checked, same_types, verify
from .algebra import algebra, simplifying
from .cse import cse, sharing
from .dead_code import dead_code
from .fold import fold, folding
from .fuse import fuse
from .loop_invariants import loop_invariants
from .loop_values import loop_values
from .loops import Pass, inside
from .matmul_chain import matmul_chain
from .merge_matmuls import merge_matmuls
from .rematerialize import rematerialize
from .rewrite import UntilSettled, rewrite
from .shape_only import shape_only
from .transposes import transposes

PASSES: dict[str, Pass] = {
    "dead_code": dead_code,
    "fold": fold,
    "loop_values": loop_values,
    "algebra": algebra,
    "cse": cse,
    "shape_only": shape_only,
    "transposes": transposes,
    "loop_invariants": loop_invariants,
    "matmul_chain": matmul_chain,
    "merge_matmuls": merge_matmuls,
    "fold again": fold,
    "fuse": fuse,
    "cse again": cse,
    "rematerialize": rematerialize,
}
"""In this order: dead branches hide constants, folding and algebra make subexpressions equal, what
leaves a loop is then done for good, merging makes constants to fold, and fusion comes last because
what is fused no other pass looks into, unless it was fused twice. Each also rewrites what is inside
loops."""

OF_LOOPS = ("loop_values", "loop_invariants")  # nothing to do where there is no loop


def optimize(
    fetches: object, fed: Collection[Node] = (), passes: Sequence[str] | None = None
) -> Any:
    """Return nodes that give the same values for less work, in the structure of `fetches`.

    Only what the fetches need is kept. Placeholders, variables, writes and their order stay, and
    what is made in the place of a fetch has its name.

    Args:
        fetches: a node, or lists, tuples and dicts of nodes.
        fed: nodes that a run will feed; nothing above them matters.
        passes: names of `PASSES` to run, each once; all, until nothing is left to do, unless given.
    Raises:
        GraphError: no such pass; or a pass broke a type, which is a mistake in the pass.
    """
    if isinstance(passes, str):
        raise GraphError(f"optimize: got passes={passes!r}, expected a list. Write [{passes!r}].")
    for name in passes or ():
        _find_pass(name)
    leaves: list[Node] = []
    rebuild = flatten(fetches, leaves)
    with keep_orders():
        fetched, there = list(leaves), set(list_needed(leaves, set(fed)))
        loops = any(isinstance(node.op, While) for node in there)  # no pass makes the first one
        # what is built has the type that its operator infers
        checked: Checked = {node: node.inputs for node in there}
        if passes is None:
            leaves = _run_until_unchanged(leaves, set(fed), checked, loops)
        for name in LAST if passes is None else passes:
            leaves = run_pass(name, leaves, set(fed), checked, loops)
    for before, after in zip(reversed(fetched), reversed(leaves), strict=True):
        if after not in there:
            after.name = before.name
    return rebuild(iter(leaves))


def simplify(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches as fold, algebra and cse, which make work for each other, leave them."""
    rule = UntilSettled(folding(fed), simplifying(fetches, fed), sharing(fed))
    return rewrite(fetches, rule, fed)


def _find_pass(name: str) -> Pass:
    named = simplify if name == "simplify" else PASSES.get(name)
    if named is None:
        raise GraphError(f"optimize: got pass {name!r}, expected one of {', '.join(PASSES)}.")
    return named


FIRST = (
    *("dead_code", "loop_values", "simplify", "shape_only", "transposes", "loop_invariants"),
    *("matmul_chain", "merge_matmuls"),
)  # `simplify` is fold, algebra and cse in one walk
LAST = ("fuse", "cse again", "rematerialize")  # once, when nothing else finds anything to do
THOROUGH = ("simplify",)  # finds nothing in what it has made itself
ROUNDS = 4


def _run_until_unchanged(
    leaves: list[Node], fed: Collection[Node], checked: Checked, loops: bool
) -> list[Node]:
    """Return the nodes after the first passes, again until none finds anything to do.

    A pass that would leave these very nodes as they are is not asked again.
    """
    left: dict[str, list[Node]] = {}  # by the name of a pass
    for _ in range(ROUNDS):
        for name in FIRST:
            if same_nodes(leaves, left.get(name, ())):
                continue
            before, leaves = leaves, run_pass(name, leaves, fed, checked, loops)
            if name in THOROUGH or same_nodes(before, leaves):
                left[name] = leaves
    return leaves


def run_pass(
    name: str,
    leaves: list[Node],
    fed: Collection[Node],
    checked: Checked | None = None,
    loops: bool = True,
) -> list[Node]:
    """Return the nodes after one pass, once they have been verified; `checked` has been already.

    Args:
        loops: whether there may be loops, whose insides are rewritten as well.
    """
    rewriting = _find_pass(name)
    if name in OF_LOOPS and not loops:
        return leaves
    if loops and rewriting not in (loop_invariants, rematerialize):  # these look by themselves
        rewriting = inside(rewriting)
    return verify_pass(rewriting(leaves, fed), leaves, fed, name, checked)


def verify_pass(
    after: list[Node],
    before: Sequence[Node],
    fed: Collection[Node],
    name: str,
    checked: Checked | None = None,
) -> list[Node]:
    """Return what a pass made of `before`, once its types have been checked.

    What it left as it was has been checked before.

    Raises:
        GraphError: a type is not what its operator infers, or a fetch changed its type.
    """
    if not same_nodes(after, before):
        verify(after, fed, name, checked)
        same_types(before, after, name)
    return after


def same_nodes(a: Sequence[Node], b: Sequence[Node]) -> bool:
    """Tell whether two lists have the same nodes: `==` of nodes is another node.

    `rewrite` has one of its own: who steps through a run stays in the file.
    """
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def count_nodes(fetches: object) -> int:
    """Return how many nodes a run of `fetches` needs, inputs and constants included.

    A loop is one node here, however much is in it.
    """
    leaves: list[Node] = []
    flatten(fetches, leaves)
    return len(list_needed(leaves, ()))
