"""Modules against PyTorch's own table of modules and inputs, `module_db`, in float64.

Each sample builds the module in both libraries, copies PyTorch's parameters into ours, and
compares the outputs and the gradients of every parameter and floating input. By default a few
samples a module; `MINITORCH_WIDE=1` takes all of them.
"""

import functools
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from minitorch import nn
from minitorch.tensor.tensor import Tensor, tensor

WIDE = os.environ.get("MINITORCH_WIDE") == "1"
SAMPLES = 1000 if WIDE else 4
NOT_COMPARED = {"Transformer", "TransformerDecoderLayer"}  # a test of their own compares them
SHARES = 4  # of the modules: a test for each would read PyTorch's table to be collected


@functools.cache
def infos() -> dict[str, Any]:
    """PyTorch's table by name."""
    from torch.testing._internal.common_modules import module_db

    return {info.name.removeprefix("nn."): info for info in module_db if ".Lazy" not in info.name}


def names() -> list[str]:
    """Return what of the table `nn` has, and is compared here."""
    return [name for name in infos() if hasattr(nn, name) and name not in NOT_COMPARED]


def samples(name: str, training: bool) -> Iterator[Any]:
    info = infos()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=False, training=training
        )


def _is_ours(options: dict[str, Any]) -> bool:
    """Whether it is without what `nn` refuses."""
    return not any(options.get(name) for name in ("add_bias_kv", "add_zero_attn", "proj_size"))


def chosen(name: str, training: bool) -> list[Any]:
    """SAMPLES of them, evenly spread."""
    found = [s for s in samples(name, training) if _is_ours(s.constructor_input.kwargs)]
    step = max(1, len(found) // SAMPLES)
    return found[::step][:SAMPLES]


def ours(value: Any, leaves: list[Any] | None = None) -> Any:
    """The same argument as ours; floating tensors become leaves that want a gradient."""
    if isinstance(value, torch.Tensor):
        made = tensor(value.detach().numpy())
        if leaves is not None and value.dtype.is_floating_point:
            leaves.append(made.requires_grad_())
        return made
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, torch.nn.Module):
        return ours_module(value)
    if callable(value) and hasattr(nn.functional, getattr(value, "__name__", "")):
        return getattr(nn.functional, value.__name__)
    if isinstance(value, dict):
        return {key: ours(item, leaves) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(ours(item, leaves) for item in value)
    return value


def ours_module(module: Any) -> Any:
    """A module that is an argument of another: an activation, or an encoder's layer."""
    if isinstance(module, torch.nn.TransformerEncoderLayer):
        return nn.TransformerEncoderLayer(
            module.linear1.in_features,
            module.self_attn.num_heads,
            module.linear1.out_features,
            module.dropout.p,
            module.activation.__name__ if callable(module.activation) else module.activation,
            batch_first=module.self_attn.batch_first,
            norm_first=module.norm_first,
            bias=module.linear1.bias is not None,
        )
    return getattr(nn, type(module).__name__)()


def theirs(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        leaves.append(value.detach().clone().requires_grad_())
        return leaves[-1]
    if isinstance(value, dict):
        return {key: theirs(item, leaves) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(theirs(item, leaves) for item in value)
    return value


def flat(value: Any) -> list[Any]:
    if isinstance(value, Tensor | torch.Tensor):
        return [value]
    return [t for item in value for t in flat(item)] if isinstance(value, list | tuple) else []


def array(value: Any) -> Any:
    return value.detach().numpy()


def agree(name: str, sample: Any, training: bool) -> None:
    build, call = sample.constructor_input, sample.forward_input
    want = getattr(torch.nn, name)(*build.args, **build.kwargs).double().train(training)
    got = getattr(nn, name)(*ours(build.args), **ours(build.kwargs)).double().train(training)
    got.load_state_dict({k: v.numpy() for k, v in want.state_dict().items()})
    my_leaves: list[Any] = []
    their_leaves: list[Any] = []
    count = 1 if name.endswith("Loss") else len(call.args)  # a target is no leaf
    mine_in = *ours(call.args[:count], my_leaves), *ours(call.args[count:])
    their_in = *theirs(call.args[:count], their_leaves), *call.args[count:]
    y = got(*mine_in, **ours(call.kwargs, my_leaves))
    z = want(*their_in, **theirs(call.kwargs, their_leaves))
    outputs = [t for t in zip(flat(y), flat(z), strict=True) if t[1] is not None]
    for a, b in outputs:
        np.testing.assert_allclose(array(a), array(b), rtol=1e-9, atol=1e-9)
    differentiable = [(a, b) for a, b in outputs if b.requires_grad]
    if not differentiable:
        return
    rng = np.random.default_rng(0)
    ways = [rng.normal(size=tuple(b.shape)) for _, b in differentiable]
    mine = sum((a * tensor(w)).sum() for (a, _), w in zip(differentiable, ways, strict=True))
    reference = sum(
        (b * torch.tensor(w)).sum() for (_, b), w in zip(differentiable, ways, strict=True)
    )
    mine.backward()
    reference.backward()
    pairs = [*zip(got.parameters(), want.parameters(), strict=True)]
    for p, q in [*pairs, *zip(my_leaves, their_leaves, strict=True)]:
        if q.grad is not None and float(q.grad.abs().max() if q.grad.numel() else 0):
            assert p.grad is not None
            np.testing.assert_allclose(array(p.grad), array(q.grad), rtol=1e-8, atol=1e-8)
    for a, b in zip(got.buffers(), want.buffers(), strict=True):
        np.testing.assert_allclose(array(a), array(b), rtol=1e-9)


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("share", range(SHARES))
def test_outputs_gradients_and_buffers_equal_pytorchs(share: int, training: bool) -> None:
    for name, sample in [(n, s) for n in names()[share::SHARES] for s in chosen(n, training)]:
        with warnings.catch_warnings():
            for known in ("enable_nested_tensor is True", "reduction: 'mean' divides"):
                warnings.filterwarnings("ignore", message=known)
            try:
                agree(name, sample, training)
            except Exception as error:
                build = sample.constructor_input
                error.add_note(f"nn.{name}, {build.args}, {build.kwargs}")
                raise


def test_most_of_the_table_is_covered() -> None:
    assert len(names()) / len(infos()) > 0.6


def test_a_module_that_is_slightly_off_is_caught() -> None:
    class Off(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 1.0005

    sample = chosen("Linear", True)[0]
    right = nn.Linear
    nn.Linear = Off  # type: ignore[misc]
    try:
        with pytest.raises(AssertionError):
            agree("Linear", sample, True)
    finally:
        nn.Linear = right  # type: ignore[misc]
