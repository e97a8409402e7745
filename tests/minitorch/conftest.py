"""Fixtures shared by the tests of minitorch."""

import importlib
import random
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import minitorch

DATABASES = "torch.testing._internal"


@pytest.fixture(scope="session")
def agreement() -> ModuleType:
    """The judge of agreement with PyTorch's own samples."""
    return importlib.import_module("tests.minitorch.opinfo_agreement")


@pytest.fixture(scope="session")
def op_db() -> list[Any]:
    """PyTorch's table of operators, whose import takes longer than torch's own: a test reads it."""
    return list(importlib.import_module(f"{DATABASES}.common_methods_invocations").op_db)


@pytest.fixture(autouse=True)
def default_graph_of_its_own() -> None:
    """No test meets names that another one has used."""
    graph = sys.modules.get("minitorch.graph")
    if graph is not None:
        graph.reset_default_graph()


@pytest.fixture(autouse=True)
def same_numbers_in_every_run(default_graph_of_its_own: None) -> None:
    """No test lives on a lucky draw, or on what the tests before it have drawn."""
    minitorch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    if importlib.util.find_spec("torch"):  # scripts/test_pythons.sh goes without
        torch = importlib.import_module("torch")
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():  # else torch writes down a stack for later, three times
            torch.cuda.manual_seed_all(0)
    graph = sys.modules.get("minitorch.graph")
    if graph is not None:
        graph.set_random_seed(0)


@pytest.fixture
def without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where llvmlite is not installed; nothing of it is remembered behind the test."""
    compiles = importlib.import_module("minitorch.ops.elementwise.compiled").compiles
    compiles.cache_clear()
    monkeypatch.setattr("minitorch.compile.engine.available", lambda: False)
    yield
    compiles.cache_clear()


@pytest.fixture
def torch_arrays() -> Iterator[None]:
    """Torch arrays behind the CPU: the code that runs on CUDA."""
    minitorch.arrays.library.use_library("cpu", "torch")
    yield
    minitorch.arrays.library.use_library("cpu", "numpy")


@pytest.fixture
def on_cuda(agreement: ModuleType, gpu: str) -> Iterator[None]:
    """Minitorch's side of the agreement on a CUDA device."""
    agreement.PLACE = gpu
    yield
    agreement.PLACE = "cpu"
