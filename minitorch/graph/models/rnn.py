"""Recurrent networks: a cell over sequences, by a loop or unrolled, under TensorFlow's names."""

from collections.abc import Sequence
from typing import Any

from ...arrays.library import DTypeLike, as_dtype, int32
from ...errors import GraphError
from ..control.loop import while_loop
from ..control.loop_stacks import empty, has_more, push, without_top
from ..control.row_lists import Resize, next_row, spread, stack_arrays
from ..control.while_op import KEPT_APART
from ..core.graph import name_scope
from ..core.node import Constant, Node, UnknownShape, build, convert
from ..core.structures import flatten_with_rebuild, same_structure
from ..operators.creation import zeros_like
from ..operators.elementwise import logical_and, maximum, where
from ..operators.math import reduce_max
from ..operators.shaping import expand_dims, shape, transpose
from ..shapes.static import agree
from .rnn_cell import RNNCell


def dynamic_rnn(
    cell: RNNCell,
    inputs: object,
    sequence_length: object = None,
    initial_state: object = None,
    dtype: DTypeLike = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
) -> tuple[Node, Any]:
    """Return (outputs, final state) of a cell over sequences, by a loop.

    The loop ends with the longest sequence, so a batch of short ones costs little, however wide
    the padding. After its end a sequence's outputs are zeros and its state stays what it was.

    Args:
        inputs: (batch, time, features), or (time, batch, features) with `time_major`; batch and
            time may be unknown.
        sequence_length: the length of each sequence, integers (batch,); all of time unless given.
        initial_state: as the cell's state; zeros of `dtype` unless given.
        parallel_iterations: as for `while_loop`.
    Returns: outputs as `inputs` is laid out, with the cell's `output_size`; a state of the cell.
    Raises:
        GraphError: neither an initial state nor a dtype; or shapes that do not fit.
    """
    x_TBF = _time_major(convert(inputs), time_major)
    with name_scope("rnn"):
        state = _first_state(cell, x_TBF, initial_state, dtype)
        lengths = None if sequence_length is None else _lengths(sequence_length, x_TBF)
        how = parallel_iterations or KEPT_APART
        outputs_TBU, last = _unroll_in_time(cell, x_TBF, state, lengths, how)
    if not time_major:
        outputs_TBU = transpose(outputs_TBU, (1, 0, 2))
    return outputs_TBU, last


def static_rnn(
    cell: RNNCell,
    inputs: Sequence[object],
    initial_state: object = None,
    dtype: DTypeLike = None,
    sequence_length: object = None,
) -> tuple[list[Node], Any]:
    """Return (outputs, final state) of a cell over a list of inputs, one copy of it for each."""
    if not inputs:
        raise GraphError("static_rnn: got no inputs, expected a list of one node or more.")
    nodes = [convert(value) for value in inputs]
    with name_scope("rnn"):
        state = _first_state(cell, expand_dims(nodes[0], 0), initial_state, dtype)
        lengths = None if sequence_length is None else convert(sequence_length)
        outputs = []
        for t, x in enumerate(nodes):
            output, state = _step(cell, x, state, Constant(t, int32), lengths)
            outputs.append(output)
    return outputs, state


def _unroll_in_time(
    cell: RNNCell, x_TBF: Node, state: object, lengths: Node | None, parallel_iterations: int
) -> tuple[Node, object]:
    """Return the outputs (time, batch, units) and the last state."""
    first, rebuild = flatten_with_rebuild(state)
    rows = spread(x_TBF)
    longest = None if lengths is None else reduce_max(maximum(lengths, 0))
    written: list[Node] = []

    def going(t: Node, rows: Node, *_: Node) -> Node:
        return has_more(rows) if longest is None else logical_and(has_more(rows), t < longest)

    def body(t: Node, rows: Node, done: Node, *now: Node) -> list[Node]:
        output, new = _step(cell, next_row(rows, x_TBF), rebuild(now), t, lengths)
        written.append(output)
        after = same_structure("dynamic_rnn", new, state)
        return [t + 1, without_top(rows), push(done, output), *after]

    start = [Constant(0, int32), rows, empty(), *first]
    # the batch is left open: zeros of a fixed one may meet an unknown one
    open_shapes = [(None, *node.shape[1:]) if len(node.shape) else () for node in first]
    shapes = [(), (), (), *open_shapes]
    last_values = while_loop(going, body, start, shapes, parallel_iterations)
    count = x_TBF.shape[0] if lengths is None else None
    outputs = stack_arrays(last_values[2], written[0], count=count)
    if lengths is not None:
        outputs = build(Resize(), (outputs, x_TBF))
    return outputs, rebuild(last_values[3:])


def _step(
    cell: RNNCell, x: Node, state: object, t: Node, lengths: Node | None
) -> tuple[Node, object]:
    """Return output and state after one step; where a sequence is over, zeros and the old state."""
    output, new = cell(x, state)
    if lengths is None:
        return output, new
    going = expand_dims(t < lengths, 1)
    old, rebuild = flatten_with_rebuild(state)
    state_after = [
        where(going, n, o) for n, o in zip(same_structure("rnn", new, state), old, strict=True)
    ]
    return where(going, output, zeros_like(output)), rebuild(state_after)


def _time_major(x: Node, already: bool) -> Node:
    if isinstance(x.shape, UnknownShape) or len(x.shape) != 3:
        axes = "(time, batch, features)" if already else "(batch, time, features)"
        raise x.error(f"dynamic_rnn: got inputs of shape {x.shape}, expected {axes}.")
    return x if already else transpose(x, (1, 0, 2))


def _first_state(cell: RNNCell, x_TBF: Node, initial_state: object, dtype: DTypeLike) -> object:
    if initial_state is not None:
        nodes, rebuild = flatten_with_rebuild(initial_state)
        return rebuild(nodes)
    if dtype is None:
        raise GraphError("rnn: got neither initial_state nor dtype. Give one of them.")
    batch = x_TBF.shape[1]
    return cell.zero_state(shape(x_TBF)[1] if batch is None else batch, as_dtype(dtype))


def _lengths(lengths: object, x_TBF: Node) -> Node:
    node = convert(lengths)
    batch = x_TBF.shape[1]
    fits = not isinstance(node.shape, UnknownShape) and agree(node.shape, (batch,))
    if node.dtype.kind not in "iu" or not fits:
        raise node.error(
            f"dynamic_rnn: got sequence_length of {node.dtype} {node.shape}, expected integers of "
            f"shape ({batch},), a length for each sequence."
        )
    return node
