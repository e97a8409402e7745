"""Sequences of several lengths in one batch: padded."""

from collections.abc import Sequence
from typing import NoReturn

from minitorch.errors import ArgumentError
from minitorch.ops.shaping.borders import pad
from minitorch.ops.shaping.joining import stack
from minitorch.tensor.tensor import Tensor


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


def pack_padded_sequence(*args: object, **options: object) -> NoReturn:
    """Refuse: recurrent layers take batches that are padded."""
    raise ArgumentError(
        "pack_padded_sequence: recurrent layers take padded batches, not packed ones. Pass the "
        "padded batch, take the output at each sequence's last step, as in "
        "out[range(batch), lengths - 1], and leave padded steps out of the loss."
    )


pad_packed_sequence = pack_sequence = pack_padded_sequence
