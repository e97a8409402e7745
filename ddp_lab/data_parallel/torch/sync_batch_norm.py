"""SyncBatchNorm on the CPU, where torch has none: batch statistics over the ranks together.

May import: torch, process_groups, reduction_group.
Source: Ioffe & Szegedy, Batch Normalization, ICML 2015, with sums taken over all ranks' batches.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddp_lab.data_parallel.reduction_group import Group
from ddp_lab.data_parallel.torch.process_groups import group_for


class CpuSyncBatchNorm(nn.SyncBatchNorm):
    """`torch.nn.SyncBatchNorm` with a forward for tensors on the CPU.

    Its process group may also be a Communicator. Without one it normalises over torch's default
    group, or over the Communicator of the DistributedDataParallel around it.
    """

    default_group: Group | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, (N, C, ...), normalised by the mean and variance of all ranks' inputs.

        Raises:
            ValueError: `input` has less than two axes.
        """
        if input.device.type != "cpu":
            result: Tensor = super().forward(input)
            return result
        self._check_input_dim(input)
        if not self.training:
            mean, var = self.running_mean, self.running_var
            return nn.functional.batch_norm(
                input, mean, var, self.weight, self.bias, mean is None, eps=self.eps
            )
        group = self._group(input.device)
        normalise: Any = _Normalise.apply
        normal, mean, var, count = normalise(input, self.eps, group)
        if self.running_mean is not None:
            self._update_running(mean, var, count)
        shape = (1, -1, *[1] * (input.dim() - 2))
        if self.affine:
            normal = normal * self.weight.view(shape) + self.bias.view(shape)
        output: Tensor = normal.to(input.dtype)
        return output

    def _group(self, device: torch.device) -> Group:
        if self.process_group is None and self.default_group is not None:
            return self.default_group
        return group_for(self.process_group or dist.group.WORLD, device)

    @torch.no_grad()
    def _update_running(self, mean: Tensor, var: Tensor, count: Tensor) -> None:
        """Move the running statistics towards this batch's; variance unbiased, as in torch."""
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = var * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


class _Normalise(torch.autograd.Function):
    """(x - mean) / std over all axes but the second, and over the ranks.

    With y the result and g its gradient, the gradient of x is (g - mean(g) - y mean(g y)) / std,
    and these means too are over all ranks: backward communicates as forward does.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, eps: float, group: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x_wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        axes = [axis for axis in range(x.dim()) if axis != 1]
        shape = (1, -1, *[1] * (x.dim() - 2))
        sums = torch.cat([x_wide.sum(axes), x_wide.new_tensor([x.numel() / x.shape[1]])])
        group.all_reduce(sums).wait()
        mean, count = sums[:-1] / sums[-1], sums[-1]
        centred = x_wide - mean.view(shape)
        squares = (centred * centred).sum(axes)  # a second message, and no cancellation
        group.all_reduce(squares).wait()
        var = squares / count
        scale = (var + eps).rsqrt()
        normal = centred * scale.view(shape)
        ctx.save_for_backward(normal, scale, count)
        ctx.group, ctx.axes, ctx.shape, ctx.dtype = group, axes, shape, x.dtype
        ctx.mark_non_differentiable(mean, var, count)
        return normal, mean, var, count

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        normal, scale, count = ctx.saved_tensors
        sums = torch.cat([grad.sum(ctx.axes), (grad * normal).sum(ctx.axes)])
        ctx.group.all_reduce(sums).wait()
        mean_grad, mean_product = (part.view(ctx.shape) for part in sums.div(count).chunk(2))
        grad_x = (grad - mean_grad - normal * mean_product) * scale.view(ctx.shape)
        return grad_x.to(ctx.dtype), None, None


def use_on_cpu(module: nn.Module, group: Group | None = None) -> None:
    """Give torch's SyncBatchNorm layers in `module` a forward for the CPU, in place.

    Those without a process group of their own use `group`, if there is one.
    """
    for layer in module.modules():
        if type(layer) is nn.SyncBatchNorm:
            layer.__class__ = CpuSyncBatchNorm
        if isinstance(layer, CpuSyncBatchNorm) and group is not None:
            layer.default_group = group
