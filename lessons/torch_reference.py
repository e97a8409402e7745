"""The network of lab 03 in PyTorch, for the same training beside it. Imports torch when called."""

from collections.abc import Sequence
from typing import Any

LR = 0.003


class TorchTraining:
    """Training of the network by PyTorch's Adam; called with a batch, returns its loss.

    Args:
        weights: the arrays to start with: filters and biases of two convolutions, then the
            weights and biases of the linear layer.
        device: "cpu" or "cuda".
    """

    def __init__(self, weights: Sequence[Any], device: str = "cpu") -> None:
        import torch

        layers: list[Any] = [torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU()]
        layers += [torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU()]
        self.model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(256, 10))
        with torch.no_grad():
            for theirs, array in zip(self.model.parameters(), weights, strict=True):
                theirs.copy_(torch.tensor(array))
        self.model.to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LR)
        self.device = device

    def to_device(self, *arrays: object) -> list[object]:
        """Return arrays as tensors on the device."""
        import torch

        return [torch.tensor(array).to(self.device) for array in arrays]

    def __call__(self, x: Any, y: Any) -> float:
        """Take one step on tensors; return the loss before it."""
        import torch

        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return float(loss.item())
