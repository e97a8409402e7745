"""One rank alone, on the CPU by gloo and on CUDA by NCCL: the wrapper changes no number."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ddp_lab import DistributedDataParallel

PLACES = [("cpu", "gloo"), pytest.param("cuda", "nccl", marks=pytest.mark.gpu(itself=True))]


def trained(model: torch.nn.Module, device: str, lr: float = 0.1) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(8, 6, generator=generator).to(device)
        model.zero_grad()
        model(x).square().mean().backward()
        with torch.no_grad():
            for param in model.parameters():
                param -= lr * param.grad
    return [param.detach().cpu() for param in model.parameters()]


def network(device: str) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)
    return torch.nn.Sequential(*layers).to(device)


@pytest.mark.parametrize(("device", "backend"), PLACES)
def test_alone_it_trains_as_the_module_does(device: str, backend: str, tmp_path: Path) -> None:
    rendezvous = f"file://{tmp_path / 'store'}"
    dist.init_process_group(backend, init_method=rendezvous, rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(network(device), bucket_cap_mb=0.0001)
        got = trained(wrapped, device)
    finally:
        dist.destroy_process_group()
    expected = trained(network(device), device)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    other = trained(network(device), device, lr=0.1001)
    assert not all(torch.equal(a, b) for a, b in zip(got, other, strict=True))
