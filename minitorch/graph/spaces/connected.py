"""`tf.contrib.layers`: the dense layer and the batch normalization that may follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import layers as of_layers
from ..collections import GraphKeys
from ..initializers import GlorotUniform, Zeros
from ..layers.parts import Weights, known_size
from ..layers.plain import rows_times
from ..lined import lined
from ..nn import bias_add, relu
from ..node import Node, convert
from ..operators.shaping import identity
from ..refusing import refuse
from ..scope import control_dependencies, get_default_graph
from ..state import Variable
from ..variable_scope import variable_scope

Function = Callable[..., Any]


@lined
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Function | None = relu,
    normalizer_fn: Function | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = Zeros(),  # noqa: B008  (holds a dtype and nothing that changes)
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Node:
    """activation(inputs weights + biases), over the last axis; a ReLU unless told otherwise.

    Args:
        normalizer_fn: stands in for the biases: `normalizer_fn(inputs weights, **params)`.
        weights_initializer: Glorot's unless given.
        biases_initializer: None for a layer without biases.
        variables_collections: names of collections for the variables, or a dict of such lists by
            "weights" and "biases".
    """
    x = convert(inputs)
    features = known_size("fully_connected", x, -1)
    with variable_scope(scope, "fully_connected", reuse=reuse):
        weights = Weights(
            weights_initializer or GlorotUniform(), weights_regularizer, None, trainable
        ).made("weights", [features, num_outputs], x.dtype)
        _collect("weights", weights, variables_collections)
        y = rows_times(x, weights, num_outputs)
        if normalizer_fn is not None:
            y = normalizer_fn(y, **(normalizer_params or {}))
        elif biases_initializer is not None:
            start = Weights(biases_initializer, biases_regularizer, None, trainable)
            biases = start.made("biases", [num_outputs], x.dtype)
            _collect("biases", biases, variables_collections)
            y = bias_add(y, biases)
        found: Node = y if activation_fn is None else activation_fn(y)
        get_default_graph().add_to_collections(outputs_collections or (), found)
        return found


def linear(inputs: Any, num_outputs: int, activation_fn: Any = None, **how: Any) -> Node:
    """`fully_connected` without an activation."""
    return fully_connected(inputs, num_outputs, activation_fn, **how)


def _collect(kind: str, variable: Variable, names: Any) -> None:
    listed = names.get(kind) if isinstance(names, Mapping) else names
    get_default_graph().add_to_collections(listed or (), variable)


def _with_updates(value: Node, updates: Sequence[Node], names: Any) -> Node:
    """Put updates into these collections; with None run them before the value instead."""
    if names is None:
        with control_dependencies(updates):
            return identity(value)
    for update in updates:
        get_default_graph().add_to_collections(names, update)
    return value


@lined
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Function | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
) -> Node:
    """The inputs normalised by channel: by the batch while training, else by moving averages.

    Args:
        updates_collections: where the averages' updates go; None to run them with the result.
        fused: taken for TensorFlow's sake; no effect on the numbers.
    Raises:
        GraphError: an option that is not supported; names it.
    """
    refuse("batch_norm", "batch_weights", batch_weights, "Use nn.weighted_moments.")
    refuse("batch_norm", "zero_debias_moving_mean", zero_debias_moving_mean, "Train for longer.")
    refuse("batch_norm", "renorm", renorm, "Use batches that are large enough.")
    refuse("batch_norm", "variables_collections", variables_collections, "Use add_to_collection.")
    graph, penalty = get_default_graph(), param_regularizers or {}
    starts = {f"{k}_initializer": v for k, v in (param_initializers or {}).items()}
    updates = graph.get_collection_ref(GraphKeys.UPDATE_OPS)
    before = len(updates)
    found: Any = of_layers.batch_normalization(
        inputs,
        1 if data_format == "NCHW" else -1,
        decay,
        epsilon,
        center,
        scale,
        beta_regularizer=penalty.get("beta"),
        gamma_regularizer=penalty.get("gamma"),
        training=is_training,
        trainable=trainable,
        name="BatchNorm" if scope is None else scope,
        reuse=reuse,
        fused=fused,
        **starts,
    )
    own = updates[before:]
    if updates_collections != GraphKeys.UPDATE_OPS:
        del updates[before:]
        found = _with_updates(found, own, updates_collections)
    found = found if activation_fn is None else activation_fn(found)
    graph.add_to_collections(outputs_collections or (), found)
    return found  # type: ignore[no-any-return]
