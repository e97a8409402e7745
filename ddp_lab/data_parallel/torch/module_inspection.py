"""What DistributedDataParallel needs to know of a torch module before it wraps it.

May import: torch, bucketing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ddp_lab.data_parallel.bucketing import ParamSpec


@dataclass(frozen=True)
class ManagedParams:
    """The parameters whose gradients are averaged, and what bucketing needs to know of them."""

    params: list[nn.Parameter]
    specs: list[ParamSpec]


def names_to_ignore(module: nn.Module) -> set[str]:
    """Return the parameters and buffers that the module asks to be left alone."""
    return set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))


def managed_params(module: nn.Module, ignored: Iterable[str]) -> ManagedParams:
    """Return the parameters that need gradients, in order of registration, each once."""
    left_alone = set(ignored)
    sparse_ids = {
        id(layer.weight)
        for layer in module.modules()
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.sparse
    }
    chosen = [
        (name, param)
        for name, param in module.named_parameters()
        if param.requires_grad and name not in left_alone
    ]
    specs = [
        ParamSpec(n, tuple(p.shape), p.element_size(), (p.dtype, p.device), id(p) in sparse_ids)
        for n, p in chosen
    ]
    return ManagedParams([param for _, param in chosen], specs)


def state(module: nn.Module, ignored: Iterable[str], with_buffers: bool) -> list[Tensor]:
    """Return the tensors that every rank must start from, detached."""
    left_alone = set(ignored)
    params = [p.detach() for n, p in module.named_parameters() if n not in left_alone]
    return params + (buffers(module, left_alone) if with_buffers else [])


def buffers(module: nn.Module, ignored: Iterable[str]) -> list[Tensor]:
    """Return the buffers that are kept in step, detached."""
    left_alone = set(ignored)
    return [b.detach() for n, b in module.named_buffers() if n not in left_alone]


def check_module(module: nn.Module, ignored: set[str]) -> None:
    """Raise unless the module can be trained data-parallel.

    Raises:
        RuntimeError: nothing needs a gradient, or a parameter has no shape yet.
        ValueError: parameters on devices of several types.
    """
    params = [p for n, p in module.named_parameters() if n not in ignored]
    if not any(p.requires_grad for p in params):
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that "
            f"requires a gradient: got {type(module).__name__} with {len(params)} parameters, "
            "expected one with requires_grad=True. Call the module itself."
        )
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in params):
        raise RuntimeError(
            "DistributedDataParallel: a parameter has no shape yet (uninitialized parameters). "
            "Run the module once on an example batch first."
        )
    types = sorted({p.device.type for p in params})
    if len(types) != 1:
        raise ValueError(
            f"DistributedDataParallel: parameters on several types of devices: got {types}, "
            "expected one. Move the module to one type with .to(device)."
        )


def device_ids_of(
    module: nn.Module, device_ids: Sequence[object] | None, output_device: object
) -> tuple[list[int] | None, int | None]:
    """Return the one device index that inputs are moved to, and that of outputs; None on CPU."""
    if device_ids is not None and len(device_ids) > 1:
        raise ValueError(
            "DistributedDataParallel: device_ids can only be None or contain a single element: "
            f"got {device_ids}. Start one process a device."
        )
    devices = {p.device for p in module.parameters()}
    if not device_ids or len(devices) > 1 or next(iter(devices)).type == "cpu":
        if device_ids or output_device:
            raise ValueError(
                "DistributedDataParallel: device_ids and output_device only work with a module "
                f"on one GPU: got device_ids {device_ids}, output_device {output_device} and "
                f"parameters on {sorted(map(str, devices))}. Leave both out."
            )
        return None, None
    index = torch._utils._get_device_index(device_ids[0], True)
    output = index if output_device is None else output_device
    return [index], torch._utils._get_device_index(output, True)
