"""`show`: a picture of how a value came to be, for the notebook, the terminal or a file."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitorch.arrays.library import to_numpy
from minitorch.errors import ArgumentError, MinitorchError
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import list_needed
from minitorch.graph.core.variables import Variable
from minitorch.op import Value
from minitorch.show.asked import MOST, names_by_id, roots_in
from minitorch.show.autodiff_scene import control_wires, heading, scene_of
from minitorch.show.diagram import Boxed, Line, Wire, draw
from minitorch.show.memory_scene import map_memory
from minitorch.show.numbers import brief
from minitorch.show.page import poster
from minitorch.show.pass_scene import compare_passes
from minitorch.show.record import Record, record, structure
from minitorch.show.scene import Canvas, Scene, Step, bundle, has_kernel
from minitorch.show.token_scene import follow_tokens

if TYPE_CHECKING:
    from minitorch.graph.core.session import Session

LARGE = 2000  # nodes of a graph that all passes are run on only to be shown


class Picture:
    """A picture that a notebook shows as SVG and a terminal prints as text.

    In a notebook with a kernel it is the player instead, with a tab for each of `scenes`.

    Attributes:
        record: what is drawn.
    """

    def __init__(
        self, record: Record, values: Sequence[Any], scenes: Callable[[], Sequence[Scene]]
    ) -> None:
        self.record = record
        self._scenes = scenes
        self._lines = [(*heading(record, i), *_numbers(record, i, values[i])) for i in _all(record)]
        self._kinds = [_kind(value, i in record.roots) for i, value in enumerate(values)]

    @cached_property
    def scenes(self) -> tuple[Scene, ...]:
        """What can be stepped through: the computation; of a node also tokens, memory, passes."""
        return tuple(self._scenes())

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        canvas, record, hidden = Canvas(), self.record, self.record.hidden
        boxes = [
            Boxed(i, self._lines[i], self._kinds[i], round=not record.ops[i]) for i in _all(record)
        ]
        wires = [Wire(s, i) for i, sources in enumerate(record.inputs) for s in sources]
        drawn = draw(canvas, boxes, wires + control_wires(record))
        title = "Computation graph" + (f", {hidden} more not drawn" if hidden else "")
        marks, steps = tuple(canvas.marks), (Step(title),)
        return poster(Scene(title, "", "", title, drawn.width, drawn.height, marks, steps, 0))

    @property
    def text(self) -> str:
        """The picture as lines, one for each box."""
        record, lines = self.record, []
        for i in _all(record):
            title, *lines_below = (line.text for line in self._lines[i])
            inputs, after = (
                ", ".join(f"%{place}" for place in places[i])
                for places in (record.inputs, record.controls)
            )
            call = f"({inputs})" * bool(inputs) + f" after {after}" * bool(after)
            lines.append(f"%{i} = {title}{call}  {', '.join(lines_below)}".rstrip())
        return "\n".join([*lines, *([f"{record.hidden} more not shown"] if record.hidden else [])])

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        plain = {"image/svg+xml": self.svg, "text/plain": self.text}
        if not has_kernel() or not self.scenes:
            return plain
        data, metadata = bundle(self.scenes)
        return {**data, **plain}, metadata

    def __repr__(self) -> str:
        return self.text


def _all(record: Record) -> range:
    return range(len(record.names))


def _numbers(record: Record, i: int, value: Any) -> list[Line]:
    number, grad = record.numbers[i], getattr(value, "_grad", None)
    lines = [] if number is None else [Line(brief(number), "code value")]
    return lines + (
        [] if grad is None else [Line(f"grad {brief(to_numpy(grad.array))}", "code grad")]
    )


def _kind(value: Value, is_root: bool) -> str:
    """Return the class of a box: what keeps its value, leaves, ends, and operators between."""
    if value.op is None:
        is_kept = isinstance(value, Variable) or getattr(value, "requires_grad", False)
        return "box good" if is_kept else "box value"
    return "box grad" if is_root else "box good" if getattr(value.op, "writes", ()) else "box"


def show(
    value: object, *, names: object = None, limit: int = MOST,
    feed_dict: Mapping[Node, object] | None = None, session: "Session | None" = None,
) -> Picture:  # fmt: skip
    """Return a picture of the operators behind `value`, with shapes, numbers and gradients.

    In a notebook it can be stepped through, forward and backward; a node of a dataflow graph also
    by tokens, with dead tokens and frames, by passes, and as a map of memory.

    Args:
        value: a tensor (before backward has freed its graph, or after one that retained it), a
            node of a dataflow graph, lists, tuples and dicts of them, a whole graph, or what
            `trace` returned.
        names: what to call leaves: a module, whose parameters have names, or a dict of values
            by name.
        limit: draw at most so many boxes, those nearest to `value`; what has more cannot be
            stepped through, but a dataflow graph still has its passes and its memory.
        feed_dict, session: how to run a node, for its numbers and tokens.
    Raises:
        ArgumentError: none of these; an empty graph; or `limit` below 1.
    """
    roots = roots_in(value)
    if limit < 1:
        raise ArgumentError(f"show: got limit {limit}, expected 1 or more.")
    called = names_by_id(names)
    graph_record, values = structure(roots, called, limit)
    views: list[Callable[[], Scene]] = []
    if not graph_record.hidden:
        views.append(lambda: scene_of(record(roots[0], called, feed_dict, session)))
    if isinstance(roots[0], Node):
        nodes = [node for node in roots if isinstance(node, Node)]
        if not graph_record.hidden:
            views.append(lambda: follow_tokens(nodes, feed_dict, session))
        views.append(lambda: map_memory(nodes, feed_dict))
        if len(list_needed(nodes, ())) <= LARGE:
            views.append(lambda: compare_passes(nodes))
    return Picture(graph_record, values, lambda: [scene for v in views if (scene := _possible(v))])


def _possible(view: Callable[[], Scene]) -> Scene | None:
    """Return a scene; None for a graph that lacks what it shows, a feed or a known size say."""
    try:
        return view()
    except MinitorchError:
        return None
