"""Graphs of unknown batch, and graphs of more operators than can be stepped through."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch import tensor
from minitorch.errors import GraphError
from minitorch.show import map_memory, show


def network(layers: int) -> tuple[Any, Any]:
    """The gradients of a network, and its input of any number of rows."""
    tf.reset_default_graph()
    x = h = tf.placeholder(tf.float32, (None, 8))
    weights = [tf.Variable(np.ones((8, 8), np.float32)) for _ in range(layers)]
    for w in weights:
        h = tf.nn.relu(tf.matmul(h, w))
    return tf.gradients(tf.reduce_sum(h * h), weights), x


def test_the_memory_of_an_unknown_batch_follows_from_what_is_fed() -> None:
    gradients, x = network(2)
    with pytest.raises(GraphError, match="size of"):
        map_memory(gradients)
    small, large = (map_memory(gradients, {x: np.ones((n, 8), np.float32)}) for n in (4, 4000))
    assert small.summary != large.summary
    with pytest.raises(GraphError, match="size of"):
        map_memory(gradients, {gradients[0]: np.ones((8, 8), np.float32)})


def test_a_picture_of_an_unknown_batch_has_a_map_of_memory_when_it_is_fed() -> None:
    gradients, x = network(2)
    titles = [scene.title for scene in show(gradients, feed_dict={x: np.ones((4, 8))}).scenes]
    assert "The memory plan" in titles
    assert "The memory plan" not in [scene.title for scene in show(gradients).scenes]


@pytest.mark.parametrize(("layers", "titles"), [(40, 2), (500, 0)])
def test_a_graph_too_large_to_step_through_keeps_memory_and_passes(
    layers: int, titles: int
) -> None:
    gradients, x = network(layers)
    picture = show(gradients, feed_dict={x: np.ones((4, 8), np.float32)})
    assert picture.record.hidden
    assert len(picture.scenes) == titles


def test_a_long_imperative_computation_has_only_its_picture() -> None:
    y = tensor([1.0], requires_grad=True)
    for _ in range(100):
        y = y * 2.0
    picture = show(y)
    assert picture.record.hidden
    assert picture.scenes == ()
