"""Stop and go on, bit for bit: what a training run has to keep, in one file.

    checkpoint = Checkpoint("run.npz", comm, model=model, optimizer=optimizer)
    for step in range(checkpoint.resume(), steps):
        ...
        checkpoint.save(step + 1)

Under `torchrun --max-restarts=3 train.py` this is all that a script needs to survive its ranks:
torchrun ends and restarts them all, and they go on from the last step that was saved. With
`--nnodes=1:4` the new run may be of another size; then it goes on from the same parameters.

May import: NumPy, agreement, communicator_group, ddp, errors, reduction_group, snapshot; torch
inside functions.
"""

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ddp_lab.data_parallel.communicator_group import CommunicatorGroup, is_communicator
from ddp_lab.data_parallel.ddp import DistributedDataParallel
from ddp_lab.data_parallel.reduction_group import Group, gather_rows, last_rank, reduce_counts
from ddp_lab.data_parallel.snapshot import dumps, loads
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import all_same, exchange

NO_STEP = -1


class Checkpoint:
    """The state of a run: of things that are alike on all ranks, and of things that are not.

    Besides what is passed it keeps the order of a DistributedDataParallel's buckets, on which the
    rounding of sums over more than two ranks depends, and torch's random numbers of each rank.

    Args:
        path: the file. Rank 0 writes it; only after a restart on other machines must all see it.
        comm: a Communicator, a torch process group, or None for torch's default group.
        per_rank: like `alike`, of things whose state differs from rank to rank, such as the
            state of a communication hook with error feedback. Forgotten, and begun afresh, when
            a run goes on with another number of ranks.
        alike: things with `state_dict()` and `load_state_dict(state)`, by name.
    """

    def __init__(
        self,
        path: str | Path,
        comm: Any = None,
        per_rank: Mapping[str, Any] | None = None,
        **alike: Any,
    ) -> None:
        self.path = Path(path)
        self.group = _group(comm)
        self._gather = partial(gather_rows, self.group)
        self._alike = {name: _unwrapped(thing) for name, thing in alike.items()}
        self._models = {
            name: thing.reducer  # type: ignore[attr-defined]
            for name, thing in alike.items()
            if isinstance(thing, DistributedDataParallel)
        }
        self._per_rank = dict(per_rank or {})
        for name, thing in [*self._alike.items(), *self._per_rank.items()]:
            _check_has_state(name, thing)

    def save(self, step: int) -> None:
        """Write the state after so many steps; every rank calls it.

        The old file is replaced once the new one is complete: a rank that dies meanwhile leaves
        one or the other.
        """
        mine = {name: thing.state_dict() for name, thing in self._per_rank.items()}
        ranks = exchange(self._gather, dumps({"things": mine, "random": _random_state()}))
        if self.group.rank == 0:
            tree = {
                "step": step,
                "alike": {name: thing.state_dict() for name, thing in self._alike.items()},
                "buckets": {name: r.rebuilt_order for name, r in self._models.items()},
                "ranks": [np.frombuffer(data, np.uint8) for data in ranks],
            }
            _replace(self.path, dumps(tree))

    def resume(self) -> int:
        """Load the latest state that any rank finds, and return its step; 0 if there is none.

        Every rank calls it, before the first step.

        Raises:
            InvalidArgument: the file is no checkpoint, or one of other things.
        """
        data = self.path.read_bytes() if self.path.is_file() else b""
        tree = loads(data) if data else {"step": NO_STEP}
        step: int = tree["step"]
        (latest,) = reduce_counts(self.group, [step], "max")
        if latest == NO_STEP:
            return 0
        root = last_rank(self.group, step == latest)
        if not all_same(self._gather, data):
            tree = loads(exchange(self._gather, data if root == self.group.rank else b"")[root])
        self._load(tree)
        return latest

    def _load(self, tree: Any) -> None:
        if set(tree["alike"]) != set(self._alike):
            raise InvalidArgument(
                f"resume: {self.path} holds other things: got {sorted(tree['alike'])}, expected "
                f"{sorted(self._alike)}. Pass what was saved, by the same names."
            )
        for name, thing in self._alike.items():
            thing.load_state_dict(tree["alike"][name])
        if len(tree["ranks"]) != self.group.size:
            return
        for name, reducer in self._models.items():
            reducer.restore_order(tree["buckets"].get(name))
        mine = loads(tree["ranks"][self.group.rank].tobytes())
        for name, thing in self._per_rank.items():
            thing.load_state_dict(mine["things"][name])
        _restore_random(mine["random"])


def _group(comm: Any) -> Group:
    if isinstance(comm, CommunicatorGroup):
        return comm
    if is_communicator(comm):
        return CommunicatorGroup(comm)
    import torch

    from ddp_lab.data_parallel.torch.process_groups import group_for

    group = torch.distributed.group.WORLD if comm is None else comm
    is_nccl = torch.distributed.get_backend(group) == "nccl"
    return group_for(group, torch.device("cuda" if is_nccl else "cpu"))


def _unwrapped(thing: Any) -> Any:
    """Return the module itself, whose names do not depend on how it is trained."""
    return thing.module if isinstance(thing, DistributedDataParallel) else thing


def _check_has_state(name: str, thing: Any) -> None:
    if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
        raise InvalidArgument(
            f"Checkpoint: {name} has no state: got {type(thing).__name__}, expected something "
            "with state_dict() and load_state_dict(state). Pass a module or an optimizer."
        )


def _random_state() -> Any:
    """Return the state of torch's generator on the CPU, where torch is in use."""
    torch = sys.modules.get("torch")
    return None if torch is None else torch.get_rng_state()


def _restore_random(state: Any) -> None:
    if state is not None:
        import torch

        torch.set_rng_state(state)


def _replace(path: Path, data: bytes) -> None:
    """Write a file in one step, as seen by who opens it by name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
