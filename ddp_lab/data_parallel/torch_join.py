"""What a rank does in the others' iterations once it has no inputs left.

May import: torch, torch_buffers.
"""

from typing import Any

from torch.distributed.algorithms.join import JoinHook

from ddp_lab.data_parallel.torch_buffers import last_rank


class DdpJoinHook(JoinHook):
    """Takes part in every collective of an iteration, with zeros for gradients."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def main_hook(self) -> None:
        """Shadow one iteration of the ranks that go on, collective by collective."""
        model = self.model
        model.reducer.rebuild()
        if model.will_sync_buffers(before_forward=True):
            model.sync_buffers(joined=True)
        syncs = model._agree_on_sync(joined=True)
        model.require_forward_param_sync = syncs
        if syncs:
            model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over the final model of a rank that ended last."""
        root = last_rank(self.model.group, is_last_joiner)
        self.model._authoritative_rank = root
        self.model.broadcast_state(root, self.model.forward_sync_buffers)
