"""Two cells over the same sequences, one of them from the end; under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops import indexing, movement
from ...ops.casting import cast_to
from ..naming import rename
from ..node import Node, convert
from ..operators.elementwise import where
from ..operators.making import range as counted
from ..operators.shaping import concat, expand_dims, reverse, shape
from ..variable_scope import variable_scope
from .rnn import dynamic_rnn, static_rnn
from .rnn_cell import RNNCell


def bidirectional_dynamic_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Node, Node], tuple[Any, Any]]:
    """Return ((outputs forwards, outputs backwards), (the two final states)) of two cells.

    The second cell reads each sequence from its own end; its outputs are in the order of time.
    """
    x, along, across = convert(inputs), int(not time_major), int(time_major)

    def turned(value: Any) -> Node:
        if sequence_length is None:
            return reverse(value, [along])
        return reverse_sequence(value, sequence_length, along, across)

    how: dict[str, Any] = {"time_major": time_major, "parallel_iterations": parallel_iterations}
    with variable_scope(scope or "bidirectional_rnn"):
        forwards, last_fw = dynamic_rnn(
            cell_fw, x, sequence_length, initial_state_fw, dtype, scope="fw", **how
        )
        backwards, last_bw = dynamic_rnn(
            cell_bw, turned(x), sequence_length, initial_state_bw, dtype, scope="bw", **how
        )
    return (forwards, turned(backwards)), (last_fw, last_bw)


def static_bidirectional_rnn(
    cell_fw: RNNCell,
    cell_bw: RNNCell,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Node], Any, Any]:
    """Return (outputs of both side by side, final state forwards, final state backwards)."""
    nodes = [convert(value) for value in inputs]
    with variable_scope(scope or "bidirectional_rnn"):
        forwards, last_fw = static_rnn(
            cell_fw, nodes, initial_state_fw, dtype, sequence_length, scope="fw"
        )
        backwards, last_bw = static_rnn(
            cell_bw, nodes[::-1], initial_state_bw, dtype, sequence_length, scope="bw"
        )
    pairs = zip(forwards, backwards[::-1], strict=True)
    return [concat([a, b], 1) for a, b in pairs], last_fw, last_bw


def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
    seq_dim: int | None = None,
    batch_dim: int | None = None,
) -> Node:
    """The first elements of each sequence, as many as its length, in the opposite order."""
    time = seq_axis if seq_axis is not None else seq_dim or 0
    batch = batch_axis if batch_axis is not None else batch_dim or 0
    x = convert(input)
    swapped = movement.movedim(x, (batch, time), (0, 1))
    given = cast_to(convert(seq_lengths), "int32") + 0
    given.set_shape(swapped.shape[:1])  # each may know what the other does not
    known = (given.shape[0], swapped.shape[1])
    sizes = [n if n is not None else shape(swapped)[i] for i, n in enumerate(known)]
    lengths = expand_dims(given, 1)
    steps = expand_dims(counted(sizes[1]), 0)
    places = where(steps < lengths, lengths - 1 - steps, steps + lengths * 0)
    rows = expand_dims(counted(sizes[0]), 1)
    found = indexing.getitem(swapped, (rows, places))
    return rename(movement.movedim(found, (0, 1), (batch, time)), name)
