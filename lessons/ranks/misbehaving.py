"""Ranks that fail, and a training in which everything goes wrong at once."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

from ddp_lab.errors import DdpLabError
from ddp_lab.launch.launcher import launch

Batch: TypeAlias = Callable[..., tuple[torch.Tensor, torch.Tensor]]
Pieces: TypeAlias = Mapping[str, Any]  # the learner's functions and classes, by name


def diagnosis(fn: Callable[[Any], Any], ranks: int = 2) -> None:
    """Run `fn` on ranks that are going to fail, and print what is said about it."""
    try:
        launch(fn, ranks, timeout_s=20)
        print("No rank complained.")
    except DdpLabError as error:
        lines = str(error).splitlines()
        print("\n".join(line for line in lines if line.startswith(("launch:", "  then rank"))))


class CountingNode:
    """A node of a graph as autograd's, made from `before`, or a leaf that holds `variable`.

    It counts how often any of them is asked for its `next_functions`.
    """

    asked = 0

    def __init__(self, before: Collection[Any] = (), variable: Any = None) -> None:
        self.before = before
        if variable is not None:
            self.variable = variable

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Pairs (node, index) of what this node was made from."""
        CountingNode.asked += 1
        return tuple((node, 0) for node in self.before)


class Dropping(torch.nn.Module):
    """Six layers; those in the middle have a way round and may be dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)
        self.middle = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: torch.Tensor, dropped: Collection[int] = ()) -> torch.Tensor:
        """Return the logits, without the layers whose indices are in `dropped`."""
        x = torch.relu(self.first(x))
        for index, layer in enumerate(self.middle):
            if index not in dropped:
                x = x + torch.relu(layer(x)) / 2
        logits: torch.Tensor = self.last(x)
        return logits


def train_misbehaving(
    comm: Any, yours: Pieces, batch: Batch, epochs: int = 20, both_have: int = 6
) -> tuple[Dropping, torch.Tensor]:
    """Return the trained model and its weights; rank 0 has nine batches an epoch, rank 1 six.

    Seeds and dropped layers are each rank's own. `yours` are the functions of the lab that hold
    the ranks together, and RoundRobin.
    """
    torch.set_num_threads(1)
    torch.manual_seed(comm.rank)
    model, coin = Dropping(), np.random.default_rng(comm.rank)
    yours["synchronize"](comm, model)
    params = list(model.parameters())
    groups = _ByTurns(comm, yours["RoundRobin"]([comm.split(0), comm.split(0)]))
    buckets, batches = _rebuilt(comm, yours, model, batch), 6 if comm.rank else 9
    for turn in (turn for _ in range(epochs) for turn in range(10)):
        model.zero_grad()
        used = [False] * len(params)
        if turn < batches:
            dropped = np.flatnonzero(coin.random(4) < 0.3) if turn < both_have else ()
            x, y = batch(turn + 9 * comm.rank, size=100)
            loss = torch.nn.functional.cross_entropy(model(x, dropped), y)
            used = yours["used_parameters"](loss, params)
            loss.backward()  # type: ignore[no-untyped-call]
        if turn >= both_have:
            yours["average_uneven"](comm, params, turn < batches)
        else:
            for bucket in buckets:
                members = [params[i] for i in bucket], [used[i] for i in bucket]
                yours["average_used"](groups, *members)
        _descend(params)
    return model, torch.nn.utils.parameters_to_vector(params).detach()


class _ByTurns:
    """`comm`, whose all-reduces go over groups in turns."""

    def __init__(self, comm: Any, groups: Any) -> None:
        self.comm, self.all_reduce = comm, groups.all_reduce

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)


@torch.no_grad()
def _descend(params: list[torch.nn.Parameter], lr: float = 0.3) -> None:
    for param in params:
        if param.grad is not None:
            param.sub_(lr * param.grad)


def _rebuilt(comm: Any, yours: Pieces, model: Dropping, batch: Batch) -> list[list[int]]:
    """Return buckets in the order in which rank 0 saw gradients in one backward pass."""
    ready: list[int] = []
    params, (x, y) = list(model.parameters()), batch(0)
    hooks = [
        p.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
            lambda _, i=i: ready.append(i)
        )
        for i, p in enumerate(params)
    ]
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    for hook in hooks:
        hook.remove()
    n_bytes = [p.numel() * p.itemsize for p in params]
    buckets: list[list[int]] = yours["rebuild"](
        n_bytes, yours["agreed_order"](comm, ready), 2**14, 2**15
    )
    return buckets
