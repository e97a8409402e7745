"""ZeRO-3: parameters, gradients and the optimizer's state, a 1/n share of each on every rank.

                            whole on each rank           1/n on each rank
    data parallelism        parameters gradients state
    ZeRO-1                  parameters gradients         state                 ShardedOptimizer
    ZeRO-2                  parameters                   gradients state       reshard_after_forward
    ZeRO-3                                               all three             fully_shard

A unit's parameters are whole while its forward or backward runs, and gathered while the unit before
is computed. ZeRO-3 sends 1.5 times the bytes of data parallelism: two gathers and a reduce-scatter,
each (n-1)/n of the parameters. The stages are DeepSpeed's; torch has fully_shard. With
`reshard_after_forward=False` parameters stay whole from forward to backward: ZeRO-2's bytes.

May import: torch, agreement, errors, flat_layout, flat_params, groups, units.
Source: Rajbhandari et al., ZeRO, SC 2020; Zhao et al., PyTorch FSDP, VLDB 2023.
"""

from typing import Any

import torch
from torch import Tensor, nn

from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree
from ddp_lab.parallel.groups import communicator_of, separate
from ddp_lab.parallel.sharded.flat_layout import facts_of
from ddp_lab.parallel.sharded.flat_params import FlatParams, Owner, Params
from ddp_lab.parallel.sharded.units import Unit, UnitOrder


def fully_shard(
    module: nn.Module,
    comm: Any,
    *,
    compute_dtype: torch.dtype | None = None,
    reshard_after_forward: bool = True,
) -> nn.Module:
    """Share the parameters of `module` out over the ranks, and return it; it trains as before.

        fully_shard(model, comm)
        optimizer = torch.optim.Adam(model.parameters())   # of this rank's shares

    Each submodule that has parameters of its own becomes a unit, gathered for its own forward and
    backward alone; `nn.MultiheadAttention`, which reads its part's weight, is one with it. What
    several units share belongs to the module that holds them all. A submodule sharded by an
    earlier call keeps its own `compute_dtype`. Backward averages gradients into those of the
    shares. `clip_grad_norm_` sees shares: add the squares of its norm over the ranks.

    Args:
        module: equal on all ranks.
        comm: a Communicator or a torch process group.
        compute_dtype: dtype of the whole parameters and of the inputs that units get; shares,
            gradients and sums keep the parameters' own.
        reshard_after_forward: give whole parameters back after forward, and gather them again
            for backward.
    Raises:
        Mismatch: ranks have other parameters or values; on all of them. Build the module from
            one seed, or broadcast it.
        InvalidArgument: a module that is sharded already, or that shares a parameter with one.
    """
    ranks = communicator_of("fully_shard", comm)
    problem, facts, homes = None, {}, {}
    try:
        _check(module, compute_dtype)
        homes = _homes(module)
        params = [entry for entries in homes.values() for entry in entries]
        facts = {owners[0].name: facts_of(param) for param, owners in params}
    except InvalidArgument as error:
        problem = str(error)
    agree(ranks, "fully_shard", facts, problem)
    gathers, reduces = separate(ranks, "gather"), separate(ranks, "reduce")
    for home, params in homes.items():
        by_kind: dict[Any, Params] = {}
        for param, owners in params:
            kind = param.dtype, param.device, param.requires_grad
            by_kind.setdefault(kind, []).append((param, owners))
        flats = [FlatParams(gathers, reduces, same, compute_dtype) for same in by_kind.values()]
        object.__setattr__(home, "_ddp_lab_unit", Unit(home, flats, compute_dtype))
    parts: list[Any] = list(module.modules())
    units: list[Unit] = [part._ddp_lab_unit for part in parts if hasattr(part, "_ddp_lab_unit")]
    order = UnitOrder(units, reshard_after_forward)
    for unit in units:
        unit.order = order
    return module


def gather_full_params(module: nn.Module) -> dict[str, Tensor]:
    """Return whole copies of the parameters by name; every rank calls it.

    A shared parameter is there under each of its names.

    Raises:
        InvalidArgument: it is no torch module.
    """
    if not isinstance(module, nn.Module):
        raise InvalidArgument(
            f"gather_full_params: no torch module: got {type(module).__name__}, expected an "
            "nn.Module. Pass the one that was given to fully_shard."
        )
    whole: dict[FlatParams, list[Tensor]] = {}
    full = {}
    for name, param in module.named_parameters(remove_duplicate=False):
        share = getattr(param, "_ddp_lab_share", None)
        if share is None:
            full[name] = param.detach().clone()
            continue
        flat, i = share
        if flat not in whole:
            rows = flat.gathers.all_gather(flat.row)
            whole[flat] = flat.layout.views(rows.view(-1))
        full[name] = whole[flat][i].clone()
    return full


def _check(module: Any, compute_dtype: Any) -> None:
    if not isinstance(module, nn.Module):
        raise InvalidArgument(
            f"no torch module: got {type(module).__name__}, expected an nn.Module. "
            "Modules of other libraries train with DistributedDataParallel."
        )
    if compute_dtype is not None and not getattr(compute_dtype, "is_floating_point", False):
        raise InvalidArgument(
            f"no dtype to compute in: got compute_dtype={compute_dtype!r}, expected "
            "one such as torch.bfloat16. Leave it out to compute in the parameters' own."
        )
    if hasattr(module, "_ddp_lab_unit"):
        raise InvalidArgument(
            f"{type(module).__name__} is sharded already. Call it once a module, and "
            "on parts before the whole."
        )
    for name, param in module.named_parameters():
        if param.is_meta:
            raise InvalidArgument(
                f"{name} has no values: got a parameter on the device meta. Give the "
                "module memory with to_empty and initialise it first."
            )


Chain = list[nn.Module]


def _homes(root: nn.Module) -> dict[nn.Module, Params]:
    """Return the parameters of each module that is to be a unit, `root` always among them.

    A parameter lives in the module whose forward uses it, or the nearest that holds all of these.
    """
    chains: dict[nn.Module, Chain] = {}
    _find_chains(root, [], False, chains)
    owners: dict[nn.Parameter, list[Owner]] = {}
    for prefix, module in root.named_modules():
        for attribute, param in module._parameters.items():
            if param is not None:
                name = f"{prefix}.{attribute}" if prefix else attribute
                owners.setdefault(param, []).append(Owner(module, attribute, name))
    homes: dict[nn.Module, Params] = {module: [] for module in chains if module is root}
    for param, users in owners.items():
        share = getattr(param, "_ddp_lab_share", None)
        if share is not None:
            _check_users(users, share[0].owners[share[1]])
            continue
        shared = chains[users[0].module]
        for user in users[1:]:
            other = chains[user.module]
            shared = [a for a, b in zip(shared, other, strict=False) if a is b]
        homes.setdefault(shared[-1], []).append((param, users))
    return homes


def _find_chains(
    module: nn.Module,
    above: list[nn.Module],
    inside: bool,
    chains: dict[nn.Module, list[nn.Module]],
) -> None:
    """Note for each module the units around its parameters, the outermost first.

    A module without a forward of its own, as ParameterList, is used by the one above.
    """
    if module in chains:
        return
    silent = type(module).forward is nn.Module.forward
    chain = above if above and (inside or silent) else [*above, module]
    chains[module] = chain
    inside = inside or isinstance(module, nn.MultiheadAttention)
    for child in module.children():
        _find_chains(child, chain, inside, chains)


def _check_users(users: list[Owner], owners: list[Owner]) -> None:
    for user in users:
        if not any(user.module is o.module and user.attribute == o.attribute for o in owners):
            raise InvalidArgument(
                f"{user.name} is shared with {owners[0].name}, which an earlier call "
                "has sharded without it. Call fully_shard on a module that holds both."
            )
