"""The schedules under PyTorch's name for them."""

from minitorch.optim.cycles import OneCycleLR, ReduceLROnPlateau, SequentialLR
from minitorch.optim.scheduler import LRScheduler
from minitorch.optim.schedules import (
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiStepLR,
    StepLR,
)

__all__ = [
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
