"""Every public name of TensorFlow 1 is there, or is refused with what to use instead."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import minitorch.graph as tf

PUBLIC: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("tensorflow_names.toml").read_text()
)


def _unsaid(space: str, names: str) -> list[str]:
    """Return the names that are missing without a word of what to use."""
    where: Any = tf
    for part in space.split(".")[1:]:
        where = getattr(where, part)
    missing = []
    for name in names.split():
        try:
            getattr(where, name)
        except AttributeError as error:
            if "It is TensorFlow's, but not supported here. " not in str(error):
                missing.append(name)
    return missing


@pytest.mark.parametrize("space", PUBLIC)
def test_a_name_is_there_or_says_what_to_use(space: str) -> None:
    assert not _unsaid(space, PUBLIC[space])


def test_a_name_that_nobody_has_would_be_found() -> None:
    assert _unsaid("tf.math", "log no_such_function segment_prod") == ["no_such_function"]


def test_every_name_that_waits_is_in_its_module() -> None:
    names = import_module("minitorch.graph.spaces.names")
    for table in (names.LATER, names.NETWORKS, names.TRAINING, names.MEASURES, names.PICTURES):
        for name, module in table.items():
            assert hasattr(import_module(module), name), (module, name)


def test_a_name_of_one_space_alone_is_not_in_another() -> None:
    for name in ("reduce_variance", "xlogy", "pinv"):
        assert not hasattr(tf, name)
    assert tf.compat.v1 is tf and tf.linalg.svd is tf.svd and tf.math.lgamma is tf.lgamma
    assert tf.__version__.startswith("1.15") and "minitorch" in tf.VERSION
