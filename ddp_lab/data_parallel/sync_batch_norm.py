"""Batch normalisation over the batches of all ranks together, for modules of any library.

    model = convert_sync_batchnorm(model, comm)

A torch module gets torch's SyncBatchNorm. In any other (minitorch) each batch norm normalises by
sums over the ranks, written with the tensors' own operators, so that its gradient follows by
itself; only the all-reduce has a rule of its own: its gradient is the all-reduce of gradients.

May import: NumPy, communicator_group, module_protocol, reduction_group; torch inside functions.
Source: Ioffe & Szegedy, Batch Normalization, ICML 2015, with sums taken over all ranks' batches.
"""

import sys
from typing import Any

import numpy as np

from ddp_lab.data_parallel.communicator_group import CommunicatorGroup
from ddp_lab.data_parallel.module_protocol import fill, values
from ddp_lab.data_parallel.reduction_group import Group


def convert_sync_batchnorm(module: Any, comm: Any) -> Any:
    """Return `module` with every batch norm, its own parameters kept, normalising over all ranks.

    Args:
        module: changed in place, but for a torch module that is a batch norm itself.
        comm: a Communicator; for a torch module also a torch process group, or None for torch's
            default group.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(module, torch.nn.Module):
        from ddp_lab.data_parallel.torch.sync_batch_norm import use_on_cpu

        converted = torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, comm)
        use_on_cpu(converted)
        return converted
    group = CommunicatorGroup(comm)
    for layer in list(module.modules()):
        kind = type(layer)
        if not issubclass(kind, SyncForward) and _is_batch_norm(kind):
            layer.__class__ = type(f"Sync{kind.__name__}", (SyncForward, kind), {})
            layer.sync_group = group
    return module


def _is_batch_norm(kind: type) -> bool:
    return any(base.__name__.startswith("BatchNorm") for base in kind.__mro__)


class SyncForward:
    """The forward of a batch norm, put in front of a library's own class."""

    sync_group: Group
    training: bool
    eps: float
    momentum: float | None
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def forward(self, x: Any) -> Any:
        """Return `x`, (N, C, ...), normalised by the mean and variance of all ranks' inputs.

        Raises:
            ValueError: `x` has less than two axes, or not one channel a parameter.
        """
        own: Any = super()
        if not self.training and self.running_mean is not None:
            return own.forward(x)
        _check_input(x, self.weight)
        axes = tuple(axis for axis in range(len(x.shape)) if axis != 1)
        shape = (1, x.shape[1], *[1] * (len(x.shape) - 2))
        group = self.sync_group
        count = float(_summed(group, np.array([x.numel() / x.shape[1]]))[0])
        mean = across(x.sum(axes), group) / count
        centred = x - mean.reshape(shape)
        var = across((centred**2).sum(axes), group) / count  # a second message: no cancellation
        if self.training and self.running_mean is not None:
            self._track(values(mean), values(var), count)
        normal = centred * ((var + self.eps) ** -0.5).reshape(shape)
        if self.weight is not None:
            normal = normal * self.weight.reshape(shape)
        return normal if self.bias is None else normal + self.bias.reshape(shape)

    def _track(self, mean: Any, var: Any, count: float) -> None:
        """Move the running statistics towards this batch's; variance unbiased, as in torch."""
        batches = values(self.num_batches_tracked) + 1
        fill(self.num_batches_tracked, batches)
        share = 1.0 / float(batches) if self.momentum is None else self.momentum
        unbiased = var * (count / max(count - 1, 1))
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            old = values(running)
            fill(running, (1 - share) * old + share * new)


def across(tensor: Any, group: Group) -> Any:
    """Return the sum of a tensor over the ranks; gradients of it are summed over them too."""
    total = (tensor - tensor.detach()) + _filled(tensor, group)  # 0, with a way back, and the sum
    if total.requires_grad:
        total.register_hook(lambda grad: _filled(grad, group))
    return total


def _filled(like: Any, group: Group) -> Any:
    """Return a new tensor that holds the sum of `like` over the ranks."""
    new = like.detach() * 1.0
    fill(new, _summed(group, values(like)))
    return new


def _summed(group: Group, array: Any) -> Any:
    flat = np.array(array).reshape(-1)  # a copy: it is summed in place
    group.all_reduce(flat).wait()
    return flat


def _check_input(x: Any, weight: Any) -> None:
    if len(x.shape) < 2 or (weight is not None and x.shape[1] != weight.shape[0]):
        channels = "C" if weight is None else weight.shape[0]
        raise ValueError(
            f"SyncBatchNorm: got an input of shape {tuple(x.shape)}, "
            f"expected (N, {channels}, ...). Normalise along axis 1."
        )
