"""Make a module tensor parallel by a plan: which of its layers are shared out over ranks, and how.

May import: torch, agreement, communicator, errors, layers.
"""

import json
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree, digest_of
from ddp_lab.parallel.tensor.layers import (
    ColumnParallelLinear,
    RowParallelLinear,
    ShardedLayer,
    VocabParallelEmbedding,
    uneven,
)

# a plan's word: what it is for, what stands in its place, and which size is shared out
STYLES: dict[str, tuple[type[nn.Module], type[ShardedLayer], Callable[[Any], dict[str, int]]]] = {
    "column": (nn.Linear, ColumnParallelLinear, lambda m: {"out_features": m.out_features}),
    "row": (nn.Linear, RowParallelLinear, lambda m: {"in_features": m.in_features}),
    "vocab": (nn.Embedding, VocabParallelEmbedding, lambda m: {"num_embeddings": m.num_embeddings}),
}


def parallelize(module: nn.Module, comm: Communicator, plan: Mapping[str, str]) -> nn.Module:
    """Return the module with the layers of a plan shared out over the ranks, in their places.

        parallelize(mlp, comm, {"fc1": "column", "fc2": "row"})
        parallelize(gpt, comm, {"wte": "vocab", "h.*.fc": "column", ...})

    Every rank passes the same whole module and keeps its share of the weights; results and
    gradients are the module's own, and parameters keep their names. The module is changed in
    place; the layers that are replaced are not.

    Args:
        module: what to share out, equal on all ranks.
        comm: the ranks.
        plan: a word for each layer's name, in which * stands for anything: "column" and "row" for
            `nn.Linear`, "vocab" for `nn.Embedding`. A row layer is given the inputs of its rank,
            as a column layer leaves them.
    Raises:
        InvalidArgument: arguments in another order; and, on every rank, no such layer or word, a
            layer of another kind, or one whose size the ranks cannot share out evenly.
        Mismatch: on every rank; plans, shapes or weights differ.
    """
    if not (isinstance(module, nn.Module) and isinstance(comm, Communicator)):
        raise InvalidArgument(
            f"parallelize: no module and communicator: got {type(module).__name__} and "
            f"{type(comm).__name__}. Call parallelize(module, comm, plan)."
        )
    if not isinstance(plan, Mapping):
        raise InvalidArgument(
            f"parallelize: no plan: got {plan!r:.80}, expected a dict of a layer's name to its "
            f'word. Pass for example {{"fc1": "column", "fc2": "row"}}.'
        )
    problem, chosen = None, {}
    try:
        chosen = _choose_words(module, comm, plan)
        _check_ties(module, chosen)
    except InvalidArgument as error:
        problem = str(error)
    facts: dict[str, Any] = {"the plan": json.dumps(dict(plan), sort_keys=True)}
    for name, param in module.named_parameters():
        facts[f"the shape of {name}"] = f"{tuple(param.shape)} {param.dtype}"
        facts[f"the weights of {name} (a hash of them)"] = digest_of(param)
    agree(comm, "parallelize", facts, problem)
    shares: dict[int, nn.Parameter] = {}
    for name, style in chosen.items():
        whole = module.get_submodule(name)
        share = STYLES[style][1].of(comm, whole)
        for own, param in whole.named_parameters(recurse=False):  # what was tied stays so
            setattr(share, own, shares.setdefault(id(param), getattr(share, own)))
        if not name:
            return share
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, share)
    return module


def _choose_words(module: nn.Module, comm: Communicator, plan: Mapping[str, str]) -> dict[str, str]:
    """Return the word for each layer by its full name."""
    chosen: dict[str, str] = {}
    names = [name for name, _ in module.named_modules()]
    for pattern, style in plan.items():
        if style not in STYLES:
            raise InvalidArgument(
                f"the plan for {pattern!r} is unknown: got {style!r}, expected one of "
                f"{', '.join(sorted(STYLES))}. Choose one of these words."
            )
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            near = get_close_matches(pattern, names, 3, 0.0)
            raise InvalidArgument(
                f"the module has no layer {pattern!r}: got {type(module).__name__} with "
                f"{', '.join(map(repr, near))}. Name a layer as named_modules() does."
            )
        for name in matching:
            _check_layer(comm, name, module.get_submodule(name), style)
            chosen[name] = style
    return chosen


def _check_ties(module: nn.Module, chosen: Mapping[str, str]) -> None:
    """Refuse parameters of several layers that would not be shared out alike."""
    ways: dict[int, dict[str, str]] = {}
    for name, layer in module.named_modules(remove_duplicate=False):
        style = chosen.get(name, "whole")
        axis = {"vocab": "rows", "column": "rows", "row": "columns"}.get(style, style)
        for own, param in layer.named_parameters(recurse=False):
            ways.setdefault(id(param), {})[f"{name}.{own}".lstrip(".")] = axis
    for tied in ways.values():
        if len(set(tied.values())) > 1:
            raise InvalidArgument(
                "layers with one parameter in common have to be shared out alike: got "
                f"{', '.join(f'{name} by {axis}' for name, axis in tied.items())}. "
                "Name both in the plan, such as 'vocab' and 'column', or neither."
            )


def _check_layer(comm: Communicator, name: str, layer: nn.Module, style: str) -> None:
    kind, _, sizes = STYLES[style]
    if getattr(type(layer), "forward", None) is not kind.forward:
        raise InvalidArgument(
            f"the layer {name!r} cannot be shared out as {style!r}: got "
            f"{type(layer).__name__}, expected {kind.__name__}. Name another layer."
        )
    problem = uneven(comm, **sizes(layer))
    for option in ("padding_idx", "max_norm"):
        if getattr(layer, option, None) is not None:
            problem = f"{option} is not supported: got {getattr(layer, option)}. Leave it out."
    if problem is not None:
        raise InvalidArgument(f"the layer {name!r}: {problem}")
