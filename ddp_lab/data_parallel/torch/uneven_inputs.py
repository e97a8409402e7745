"""What a rank does in the others' iterations once it has no inputs left.

May import: torch, reduction_group.
"""

from typing import Any

from torch.distributed.algorithms.join import JoinHook

from ddp_lab.data_parallel.reduction_group import last_rank


class DdpJoinHook(JoinHook):
    """Takes part in every collective of an iteration, with zeros for gradients."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def main_hook(self) -> None:
        """Shadow one iteration of the ranks that go on."""
        self.model.shadow_step()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take over the final model of a rank that ended last."""
        root = last_rank(self.model.group, is_last_joiner)
        self.model._authoritative_rank = root
        self.model.broadcast_state(root, self.model.forward_sync_buffers)
