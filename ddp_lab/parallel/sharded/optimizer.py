"""ZeRO-1: every rank keeps the optimizer's state for its share of the parameters alone.

    data parallelism    parameters   gradients   n states, all the same
    ZeRO-1              parameters   gradients   1/n of the state on each rank

Each rank steps its share, then all gather the new parameters: as many bytes as the second half of
an all-reduce. This is stage 1 of DeepSpeed's ZeRO; torch's form of it is ZeroRedundancyOptimizer,
which gives out whole parameters, and so uneven shares.
Horovod, which keeps everything on every rank, is the case beside it: `DistributedDataParallel`.

May import: torch, agreement, communicator, errors, flat_layout, groups.
Source: Rajbhandari et al., ZeRO, SC 2020, section 5.1.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree, exchange
from ddp_lab.parallel.groups import communicator_of, separate
from ddp_lab.parallel.sharded.flat_layout import FlatLayout, by_kind, empty, facts_of

WHOLE_TENSORS = ("LBFGS", "Adafactor", "Muon")  # their step of an element looks at all others


class ShardedOptimizer(Optimizer):
    """A torch optimizer whose state is shared out: 1/n of the elements on each of n ranks.

        optimizer = ShardedOptimizer(model.parameters(), torch.optim.Adam, comm, lr=1e-3)

    Parameters, groups, schedulers, closures and `zero_grad` as with the optimizer itself. The
    parameters move into one flat tensor a dtype, in memory that other ranks can read. `state` has
    this rank's elements; `state_dict()` has all of it, in the form that the optimizer itself would
    give, and loads into that, or into a ShardedOptimizer of any number of ranks.

    Every rank makes it, calls `step`, `state_dict` and `add_param_group`, with equal gradients: as
    DistributedDataParallel leaves them. Parameters are then those of the unsharded optimizer bit
    for bit.

    Args:
        params: parameters or groups of them, equal on all ranks.
        optimizer_class: one whose update of an element needs that element's gradient and state
            alone, such as SGD, Adam or Adagrad.
        comm: a Communicator or a torch process group.
        options: those of the optimizer.
    Raises:
        Mismatch: ranks have other parameters, values or options; on all of them. Build the model
            from one seed, or broadcast it.
        InvalidArgument: no optimizer's class, or one that needs whole tensors; parameters that
            cannot be gone through; a sparse gradient.
    """

    def __init__(
        self, params: Any, optimizer_class: Callable[..., Optimizer], comm: Any, **options: Any
    ) -> None:
        ranks = communicator_of("ShardedOptimizer", comm)
        name = getattr(optimizer_class, "__name__", str(optimizer_class))
        problem = _problem_of(params, optimizer_class, name)
        agree(ranks, "ShardedOptimizer", {"optimizer_class": name}, problem)
        self._comm: Communicator = separate(ranks, "ShardedOptimizer")
        self._inner: Optimizer | None = None
        self._flats: list[tuple[Tensor, Tensor]] = []  # all rows, and this rank's
        self._shares: dict[Tensor, tuple[slice, Tensor]] = {}
        super().__init__(params, dict(options))
        groups = self._shard(self.param_groups)
        self._inner = optimizer_class(groups, **options)
        self._copy_options(self._inner.param_groups, self.param_groups)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; on every rank."""
        super().add_param_group(param_group)
        if self._inner is not None:
            for group in self._shard(self.param_groups[-1:]):
                self._inner.add_param_group(group)
            self._copy_options(self._inner.param_groups, self.param_groups)

    def _shard(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Lay the parameters of some groups out flat; return the groups of this rank's shares."""
        params = [p for group in groups for p in group["params"]]
        facts = {f"group {i}": _options_of(group) for i, group in enumerate(groups)}
        facts |= {f"parameter {i}": facts_of(p) for i, p in enumerate(params)}
        agree(self._comm, "ShardedOptimizer", facts)
        for same in by_kind(params):
            self._lay_out([params[i] for i in same])
        return [
            {
                **{key: value for key, value in group.items() if key != "param_names"},
                "params": [self._shares[p][1] for p in group["params"] if p in self._shares],
            }
            for group in groups
        ]

    @torch.no_grad()
    def _lay_out(self, params: Sequence[Tensor]) -> None:
        rank, size = self._comm.rank, self._comm.size
        layout = FlatLayout([p.shape for p in params], size)
        flat = empty(self._comm, size * layout.row, params[0])
        flat[layout.numel :] = 0
        for param, view in zip(params, layout.views(flat), strict=True):
            view.copy_(param)
            param.data = view
        rows = flat.view(size, layout.row)
        self._flats.append((rows, rows[rank]))
        shares = layout.shares(rows[rank], rank)
        for param, part, share in zip(params, layout.parts(rank), shares, strict=True):
            if share.numel():
                self._shares[param] = part, share

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step this rank's share, then gather all parameters; return the closure's loss."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        assert self._inner is not None
        self._copy_options(self.param_groups, self._inner.param_groups)
        for param, (part, share) in self._shares.items():
            share.grad = None if param.grad is None else _dense(param).reshape(-1)[part]
        self._inner.step()
        for param, (_, share) in self._shares.items():
            share.grad = None
            if share in self._inner.state:
                self.state[param] = self._inner.state[share]
        for rows, own in self._flats:
            self._comm.all_gather(own, out=rows)
        return loss

    def _copy_options(self, groups: list[dict[str, Any]], into: list[dict[str, Any]]) -> None:
        for group, other in zip(groups, into, strict=True):
            other.update({k: v for k, v in group.items() if k not in ("params", "param_names")})

    def state_dict(self) -> dict[str, Any]:
        """Return the whole state, as the unsharded optimizer would; every rank calls it."""
        packed = super().state_dict()
        params = [p for group in self.param_groups for p in group["params"]]
        mine = {i: state for i, state in packed["state"].items() if params[i] in self._shares}
        state: dict[int, dict[str, Any]] = {}
        for states in _gather_states(self._comm, mine):
            for i, entries in states.items():
                for key, value in entries.items():
                    state.setdefault(i, {}).setdefault(key, []).append(value)
        packed["state"] = {
            i: {key: _join(values, params[i].shape) for key, values in state[i].items()}
            for i in sorted(state)
        }
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take this rank's share of a whole state, from an optimizer sharded or not."""
        super().load_state_dict({**state_dict, "state": {}})
        params = [p for group in self.param_groups for p in group["params"]]
        assert self._inner is not None
        packed = self._inner.state_dict()
        mine = [(i, p, self._shares[p][0]) for i, p in enumerate(params) if p in self._shares]
        packed["state"] = {
            at: {key: _cut(key, v, p, part) for key, v in state_dict["state"][i].items()}
            for at, (i, p, part) in enumerate(mine)
            if i in state_dict["state"]
        }
        self._inner.load_state_dict(packed)
        self._copy_options(self.param_groups, self._inner.param_groups)
        self.state.clear()
        for _, param, _ in mine:
            share = self._shares[param][1]
            if share in self._inner.state:
                self.state[param] = self._inner.state[share]


def _problem_of(params: Any, optimizer_class: Any, name: str) -> str | None:
    """Return why an optimizer of this class cannot share out these parameters, if it cannot."""
    if not callable(optimizer_class):
        return (
            f"no class of optimizers: got {optimizer_class!r:.80}, expected one, such as "
            "torch.optim.Adam. Pass the class; its options follow comm."
        )
    if not isinstance(params, Iterable):
        return (
            f"no parameters: got {type(params).__name__}, expected those of a model, or groups of "
            "them. Pass model.parameters()."
        )
    if name in WHOLE_TENSORS:
        return (
            f"{name} needs whole parameters: an element's step depends on the others. Take an "
            "optimizer by elements, such as Adam, or do not shard it."
        )
    return None


def _options_of(group: dict[str, Any]) -> str:
    plain = {k: v for k, v in group.items() if isinstance(v, bool | int | float | str | tuple)}
    return f"{len(group['params'])} parameters with {plain}"


def _dense(param: Tensor) -> Tensor:
    grad = param.grad
    assert grad is not None
    if grad.is_sparse:
        raise InvalidArgument(
            f"ShardedOptimizer: a sparse gradient cannot be cut into shares: got {grad.layout} for "
            f"a parameter of shape {tuple(param.shape)}. Use nn.Embedding(sparse=False)."
        )
    return grad


def _gather_states(comm: Communicator, mine: Any) -> list[Any]:
    """Return every rank's plain data and tensors, by rank."""
    file = io.BytesIO()
    torch.save(mine, file)
    states = exchange(comm.all_gather, file.getvalue())
    return [torch.load(io.BytesIO(state), weights_only=True) for state in states]


def _join(values: list[Any], shape: torch.Size) -> Any:
    """Return the parts of an entry as the whole; numbers such as `step` are one for all."""
    if isinstance(values[0], Tensor) and values[0].dim():
        return torch.cat(values).view(shape)
    return values[0]


def _cut(key: str, value: Any, param: Tensor, part: slice) -> Any:
    if not isinstance(value, Tensor):
        return value
    cut = key != "step" and value.shape == param.shape
    return (value.reshape(-1)[part] if cut else value).clone()
