"""Programs written for PyTorch, run once with it and once with minitorch under its name.

A program is a file of `sources/`: it imports torch as any program does, and `python FILE` works.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import minitorch

SOURCES = Path(__file__).parent / "sources"
STEPS = 20


def program(name: str, library: str) -> ModuleType:
    """Return the program `name` as a module whose torch is `library`."""
    text = (SOURCES / f"{name}.py").read_text()
    if library != "torch":
        text = re.sub(r"^import torch$", f"import {library} as torch", text, flags=re.MULTILINE)
        text = re.sub(r"^(import|from) torch\b", rf"\1 {library}", text, flags=re.MULTILINE)
    module = ModuleType(f"{name}_on_{library}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(text, f"{name}.py with {library}", "exec"), module.__dict__)
    return module


@pytest.fixture
def both() -> Callable[[str], tuple[ModuleType, ModuleType]]:
    """Return a program with PyTorch, and with minitorch."""
    torch.manual_seed(0)
    minitorch.manual_seed(0)
    return lambda name: (program(name, "torch"), program(name, "minitorch"))


@pytest.fixture
def copy_weights() -> Callable[[Any, Any], None]:
    """Copy the weights of a model of PyTorch's into ours; the names have to be the same."""

    def copy(theirs: Any, ours: Any) -> None:
        weights = {k: v.detach().numpy().copy() for k, v in theirs.state_dict().items()}
        assert list(ours.state_dict()) == list(weights)
        ours.load_state_dict({k: minitorch.tensor(v) for k, v in weights.items()})

    return copy


@pytest.fixture
def same_losses() -> Callable[..., None]:
    """Compare the losses of as many steps as a test takes; something was learnt, too."""

    def compare(theirs: list[float], ours: list[float], rtol: float = 1e-6) -> None:
        assert len(theirs) == STEPS
        np.testing.assert_allclose(ours, theirs, rtol=rtol)
        assert min(theirs) < theirs[0]

    return compare
