"""Uneven inputs: a rank that is done takes part in the others' collectives.

May import: errors, reduction_group.
"""

from types import TracebackType
from typing import Any

from ddp_lab.data_parallel.errors import InputsExhausted
from ddp_lab.data_parallel.reduction_group import last_rank, reduce_counts


class UnevenInputs:
    """What `model.join()` returns; a context around the training loop.

    Before each forward the ranks count who still trains. A rank that leaves the loop goes on
    counting, and shadows every iteration with zeros for gradients, until nobody trains; then all
    take over the model of a rank that ended last.
    """

    def __init__(
        self,
        model: Any,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> None:
        self._model = model
        self._divide_by_all = divide_by_initial_world_size
        self._enable = enable
        self._throw = throw_on_early_termination
        self._ended_last = True

    def count(self, training: bool) -> int:
        """Return how many ranks still train; every rank asks at the same points.

        Raises:
            InputsExhausted: not all of them, and early termination is to raise.
        """
        group = self._model.group
        (training_ranks,) = reduce_counts(group, [int(training)])
        if self._throw and training_ranks < group.size:
            raise InputsExhausted(
                f"join: {group.size - training_ranks} of {group.size} ranks exhausted their "
                "inputs. Catch this on every rank, or leave throw_on_early_termination out."
            )
        return training_ranks

    def begin_iteration(self) -> None:
        """Count who trains, this rank too, and have gradients divided by the right number."""
        training_ranks = self.count(True)
        reducer = self._model.reducer
        reducer.divisor = reducer.group.size if self._divide_by_all else training_ranks

    def __enter__(self) -> "UnevenInputs":
        if self._enable:
            self._model.uneven = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if not self._enable:
            return
        model = self._model
        try:
            if kind is None:
                while self.count(False):
                    self._ended_last = False
                    model.shadow_step()
                root = last_rank(model.group, self._ended_last)
                model.broadcast_state(root, model.forward_sync_buffers)
        finally:
            model.uneven = None
            model.reducer.divisor = model.group.size
