"""Normalisations: by the batch, by the sample, by groups of channels."""

from collections.abc import Sequence
from typing import Any, ClassVar

from minitorch.arrays.library import DeviceLike, DTypeLike, int64
from minitorch.errors import ArgumentError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.conv import each_axis
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.tensor.creation import ones, zeros
from minitorch.tensor.tensor import Tensor


class _Affine(Module):
    """What all share: a scale that starts at 1 and a shift that starts at 0, each None if not."""

    weight: Parameter | None
    bias: Parameter | None

    def _add(
        self, shape: tuple[int, ...], scale: bool, shift: bool, device: DeviceLike, dtype: DTypeLike
    ) -> None:
        ones_there = Parameter(ones(shape, device=device, dtype=dtype)) if scale else None
        self.register_parameter("weight", ones_there)
        self.register_parameter("bias", empty_parameter(shape, device, dtype) if shift else None)

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _RunningNorm(_Affine):
    """What batch and instance norm share: scale and shift, and running mean and variance."""

    ranks: ClassVar[tuple[int, ...]]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._add((num_features,), affine, affine and bias, device, dtype)
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        keeps = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **kind) if keeps else None)
        self.register_buffer("running_var", ones(num_features, **kind) if keeps else None)
        counter = zeros((), device=device, dtype=int64) if keeps else None
        self.register_buffer("num_batches_tracked", counter)

    def reset_parameters(self) -> None:
        """Set scale to 1, shift to 0, and forget the running statistics."""
        super().reset_parameters()
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.zero_()

    def _check(self, x: Tensor) -> None:
        if x.ndim not in self.ranks:
            expected = " or ".join(map(str, self.ranks))
            raise ShapeError(f"{self._get_name()}: got shape {x.shape}, expected {expected} axes.")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    """Each channel by the batch's mean and variance; in evaluation by the running ones."""

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised; in training the running statistics move."""
        self._check(input)
        momentum: Any = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # a plain mean of all batches so far
                momentum = 1.0 / self.num_batches_tracked.to(input.dtype)
        if 0 in input.shape:  # no values, no mean: the result is as empty
            return input * 1.0
        own = not self.training or self.track_running_stats
        result: Tensor = F.batch_norm(
            input,
            self.running_mean if own else None,
            self.running_var if own else None,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            0.0 if momentum is None else momentum,
            self.eps,
        )
        return result


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L). Source: Ioffe & Szegedy, ICML 2015."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W). Source: Ioffe & Szegedy, ICML 2015."""

    ranks = (4,)


class _InstanceNorm(_RunningNorm):
    """Each channel of each sample by its own mean and variance."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *kind: Any,
        **named: Any,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, *kind, **named)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised; a missing batch axis is put in and taken out again."""
        self._check(input)
        single = input.ndim == min(self.ranks)
        input = input.unsqueeze(0) if single else input
        result: Tensor = F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum or 0.0,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (N, C, L) or (C, L)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class _LastAxesNorm(_Affine):
    """Each sample alone, over its last axes."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: Any = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = each_axis(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        shift = elementwise_affine and bias
        self._add(self.normalized_shape, elementwise_affine, shift, device, dtype)

    def extra_repr(self) -> str:
        affine = self.elementwise_affine
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"


class LayerNorm(_LastAxesNorm):
    """Each sample by the mean and variance over its last axes.

    Source: Ba, Kiros & Hinton, arXiv:1607.06450, 2016.
    """

    def forward(self, input: Tensor) -> Tensor:
        result: Tensor = F.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps
        )
        return result

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, bias={self.bias is not None}"


class RMSNorm(_LastAxesNorm):
    """Each sample over the root of its mean square. Source: Zhang & Sennrich, NeurIPS 2019."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(_Affine):
    """Each group of channels of each sample by its own mean and variance.

    Source: Wu & He, ECCV 2018.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: got {num_channels} channels in {num_groups} groups, expected a number "
                "that the groups divide."
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._add((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised, of its own shape (N, C, ...)."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
