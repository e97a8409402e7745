"""The tests of graphs run as users run them, unless the environment says otherwise.

MINITORCH_OPTIMIZE=0 keeps each session from rewriting its graph, MINITORCH_EXECUTOR=tokens (or
another) has another executor run it. Tests marked `as_built` look at a run's operators: no session
rewrites what they build unless it is told to.
"""

import os
from collections.abc import Iterator

import pytest

import minitorch.graph as tf
import tests.minitorch.graph.arena  # noqa: F401 - one executor more
from minitorch.graph.costs.machine import Fixed, use


@pytest.fixture(autouse=True)
def sessions_as_asked_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """Sessions optimise, and run, as the environment says."""
    usual = tf.Session.default_optimize, tf.Session.default_executor
    if request.node.get_closest_marker("as_built") is None:
        tf.Session.default_optimize = os.environ.get("MINITORCH_OPTIMIZE", "1") == "1"
        tf.Session.default_executor = os.environ.get("MINITORCH_EXECUTOR", usual[1])
    else:
        tf.Session.default_optimize = False
    yield
    tf.Session.default_optimize, tf.Session.default_executor = usual


@pytest.fixture
def without_kernels() -> Iterator[None]:
    """Rewrites are decided by a machine that is the same everywhere, and has no kernels."""
    with use(Fixed(kernels=False)):
        yield
