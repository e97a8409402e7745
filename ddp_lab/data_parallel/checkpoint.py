"""Stop and go on, bit for bit: what a training run has to keep, in one file.

    checkpoint = Checkpoint("run.npz", comm, model=model, optimizer=optimizer)
    for step in range(checkpoint.resume(), steps):
        ...
        checkpoint.save(step + 1)

Under `torchrun --max-restarts=3 train.py` this is all that a script needs to survive its ranks:
torchrun ends and restarts them all, and they go on from the last step that was saved. With
`--nnodes=1:4` the new run may be of another size; then it goes on from the same parameters.

State dicts are kept as bytes (`dumps`), never as pickles: an `.npz` file of the arrays by number,
and a tree in JSON that says where each of them belongs.

May import: NumPy, agreement, arrays, ddp, errors, reduction, reduction_group,
transport; torch inside functions.
"""

import io
import json
import os
import sys
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ddp_lab.arrays import outside, to_numpy
from ddp_lab.data_parallel.ddp import DistributedDataParallel
from ddp_lab.data_parallel.reduction_group import (
    Group,
    as_group,
    gather_rows,
    last_rank,
    reduce_counts,
)
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import all_same, exchange
from ddp_lab.reduction import BFLOAT16
from ddp_lab.transport.base import NDArray

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
        _check_places(path, per_rank)
        self.path = Path(path)
        self.group = _group(comm)
        self._gather = partial(gather_rows, self.group)
        self._alike = {name: _unwrap(part) for name, part in alike.items()}
        self._models = {
            name: part.reducer
            for name, part in alike.items()
            if isinstance(part, DistributedDataParallel)
        }
        self._per_rank = dict(per_rank or {})
        for name, part in [*self._alike.items(), *self._per_rank.items()]:
            _check_has_state(name, part)

    def save(self, step: int) -> None:
        """Write the state after so many steps; every rank calls it.

        The old file is replaced once the new one is complete: a rank that dies meanwhile leaves
        one or the other.
        """
        mine = {name: part.state_dict() for name, part in self._per_rank.items()}
        ranks = exchange(self._gather, dumps({"things": mine, "random": _random_state()}))
        if self.group.rank == 0:
            tree = {
                "step": step,
                "alike": {name: part.state_dict() for name, part in self._alike.items()},
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
        for name, part in self._alike.items():
            part.load_state_dict(tree["alike"][name])
        if len(tree["ranks"]) != self.group.size:
            return
        for name, reducer in self._models.items():
            reducer.restore_order(tree["buckets"].get(name))
        mine = loads(tree["ranks"][self.group.rank].tobytes())
        for name, part in self._per_rank.items():
            part.load_state_dict(mine["things"][name])
        _restore_random(mine["random"])


def _group(comm: Any) -> Group:
    over_communicator = as_group(comm)
    if over_communicator is not None:
        return over_communicator
    import torch

    from ddp_lab.data_parallel.torch.process_groups import group_for

    group = torch.distributed.group.WORLD if comm is None else comm
    if group is not None and not isinstance(group, torch.distributed.ProcessGroup):
        raise InvalidArgument(
            f"Checkpoint: no ranks: got {group!r}, expected a Communicator, a torch process group "
            "or None. Pass what is saved by keyword: Checkpoint(path, comm, model=model)."
        )
    is_nccl = torch.distributed.get_backend(group) == "nccl"
    return group_for(group, torch.device("cuda" if is_nccl else "cpu"))


def _unwrap(part: Any) -> Any:
    """Return the module itself, whose names do not depend on how it is trained."""
    return part.module if isinstance(part, DistributedDataParallel) else part


def _check_places(path: Any, per_rank: Any) -> None:
    """Raise `InvalidArgument` where something else stands in the place of one of these."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidArgument(
            f"Checkpoint: no path: got {path!r}, expected the name of a file. Pass it first: "
            "Checkpoint(path, comm, model=model)."
        )
    if per_rank is not None and not isinstance(per_rank, Mapping):
        raise InvalidArgument(
            f"Checkpoint: per_rank is no mapping: got {per_rank!r}, expected things by name. Pass "
            "what is alike on all ranks by keyword: Checkpoint(path, comm, model=model)."
        )


def _check_has_state(name: str, part: Any) -> None:
    if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
        raise InvalidArgument(
            f"Checkpoint: {name} has no state: got {type(part).__name__}, expected something "
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


PLAIN = (bool, int, float, str, type(None))
TREE = "tree"


def dumps(tree: Any) -> bytes:
    """Return a tree of plain data and arrays as bytes.

    Tensors of other libraries are kept as the arrays behind them (`detach().numpy()`).

    Raises:
        InvalidArgument: something in it is neither; says where.
    """
    arrays: list[NDArray] = []
    text = json.dumps(_encode(tree, arrays, ""))
    named: Any = {f"a{number}": array for number, array in enumerate(arrays)}
    named[TREE] = np.frombuffer(text.encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **named)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """Return what `dumps` was given; tensors of torch as such, on the CPU.

    Raises:
        InvalidArgument: these are no such bytes.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _decode(json.loads(arrays.pop(TREE).tobytes()), arrays)
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidArgument(
            f"load: not a snapshot: got {len(data)} bytes that do not read ({error}). "
            "Point to a file that save has written."
        ) from error


def _encode(value: Any, arrays: list[NDArray], where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, dict):
        return {"dict": [_item(key, v, arrays, where) for key, v in value.items()]}
    if isinstance(value, list | tuple):
        items = [_encode(v, arrays, f"{where}[{k}]") for k, v in enumerate(value)]
        return {"list" if isinstance(value, list) else "tuple": items}
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise _cannot_save(value, where)
    return _array(value, arrays, where)


def _item(key: Any, value: Any, arrays: list[NDArray], where: str) -> list[Any]:
    if not isinstance(key, PLAIN):
        raise _cannot_save(key, f"a key of {where or 'the state'}")
    return [key, _encode(value, arrays, f"{where}.{key}" if where else str(key))]


def _array(value: Any, arrays: list[NDArray], where: str) -> dict[str, Any]:
    if hasattr(value, "detach") and not type(value).__module__.startswith("torch"):
        value = value.detach().numpy()
    array, kind = to_numpy(value, f"save: {where}")
    is_short = array.dtype == BFLOAT16
    arrays.append(array.view(np.uint16) if is_short else array)
    return {"array": len(arrays) - 1, "kind": kind, "bfloat16": is_short}


def _cannot_save(value: Any, where: str) -> InvalidArgument:
    return InvalidArgument(
        f"save: {where or 'the state'} cannot be saved: got {type(value).__name__}, expected "
        "arrays, numbers, text, or lists and dicts of them. Leave it out, or convert it."
    )


def _decode(node: Any, arrays: dict[str, NDArray]) -> Any:
    if not isinstance(node, dict):
        return node
    if "dict" in node:
        return {key: _decode(value, arrays) for key, value in node["dict"]}
    if "array" in node:
        array = arrays[f"a{node['array']}"]
        return outside(array.view(BFLOAT16) if node["bfloat16"] else array, node["kind"])
    if "list" in node:
        return [_decode(value, arrays) for value in node["list"]]
    return tuple(_decode(value, arrays) for value in node["tuple"])
