"""Sequences of several lengths in one batch: padded, and packed without the padding."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.ops.shaping.borders import pad
from minitorch.ops.shaping.joining import cat, stack
from minitorch.tensor.creation import full
from minitorch.tensor.tensor import Tensor, tensor


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences (length, ...) as one batch (most, batch, ...), the shorter ones padded.

    Args:
        sequences: tensors that differ in their first size alone.
        batch_first: return (batch, most, ...).
        padding_value: what stands behind a sequence, or before it if `padding_side` is "left".
    """
    if not sequences or padding_side not in ("right", "left"):
        raise ArgumentError(
            f"pad_sequence: got {len(sequences)} sequences and padding_side {padding_side!r}, "
            "expected one or more, and 'right' or 'left'."
        )
    most = max(len(sequence) for sequence in sequences)
    rows = []
    for x in sequences:
        missing = most - len(x)
        ends = (0, missing) if padding_side == "right" else (missing, 0)
        rows.append(pad(x, (0, 0) * (x.ndim - 1) + ends, value=padding_value))
    return stack(rows, 0 if batch_first else 1)


class PackedSequence(NamedTuple):
    """Sequences of several lengths, step by step, of each step those that go on."""

    data: Tensor  # (sum of lengths, ...): the longest sequence first in every step
    batch_sizes: Tensor  # how many sequences have the step, by step
    sorted_indices: Tensor | None = None  # which sequence of the batch stands where; None: as given
    unsorted_indices: Tensor | None = None  # where each sequence of the batch stands

    def sort(self, state: Tensor) -> Tensor:
        """Return a state (layers, N, H) with the longest sequence first."""
        return state if self.sorted_indices is None else state[:, self.sorted_indices]

    def unsort(self, state: Tensor) -> Tensor:
        """Return a state (layers, N, H) in the batch's order."""
        return state if self.unsorted_indices is None else state[:, self.unsorted_indices]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:  # fmt: skip
    """Return a padded batch (L, N, ...), or (N, L, ...) with `batch_first`, without its padding.

    Raises:
        ArgumentError: lengths that do not fit, or are not in order with `enforce_sorted`.
    """
    padded = input.transpose(0, 1) if batch_first else input
    sizes = np.asarray(lengths)
    fits = sizes.shape == padded.shape[1:2] and sizes.dtype.kind in "iu"
    if not fits or not (sizes > 0).all() or sizes.max() > len(padded):
        raise ArgumentError(
            f"pack_padded_sequence: got lengths {sizes.tolist()}, expected {padded.shape[1]} "
            f"integers, each from 1 to {len(padded)}."
        )
    order = None if enforce_sorted else np.argsort(-sizes, kind="stable")
    if enforce_sorted and (np.diff(sizes) > 0).any():
        raise ArgumentError(
            f"pack_padded_sequence: got lengths {sizes.tolist()}, expected the longest first. "
            "Sort them, or pass enforce_sorted=False."
        )
    places = np.arange(len(sizes)) if order is None else order
    goes_on = np.arange(sizes.max())[:, None] < sizes[places]
    steps, columns = goes_on.nonzero()
    data = padded[tensor(steps), tensor(places[columns])]
    indices = (None, None) if order is None else (tensor(order), tensor(np.argsort(order)))
    return PackedSequence(data, tensor(goes_on.sum(1)), *indices)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the padded batch, in the order that was packed, and the length of each sequence."""
    sizes = sequence.batch_sizes.numpy()
    length = len(sizes) if total_length is None else total_length
    if length < len(sizes):
        raise ArgumentError(
            f"pad_packed_sequence: got total_length {length}, expected {len(sizes)} or more."
        )
    goes_on = np.arange(sizes[0]) < sizes[:, None]
    if sequence.unsorted_indices is not None:
        columns = sequence.unsorted_indices.numpy()
    else:
        columns = np.arange(sizes[0])
    rows = np.full((length, sizes[0]), goes_on.sum())  # the last row of all is padding
    rows[: len(sizes)][goes_on] = np.arange(goes_on.sum())
    data = sequence.data
    border = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = cat([data, border])[tensor(rows[:, columns])]
    lengths = tensor(goes_on.sum(0)[columns])
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences (length, ...) as one packed batch."""
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)
