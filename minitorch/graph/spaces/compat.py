"""`tf.compat`: TensorFlow 1's names as later versions spell them, and Python 2's kinds of text."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import minitorch.graph

from .absent import no_attribute


def __getattr__(name: str) -> Any:
    """Return `v1`, which is `minitorch.graph` itself; raise for what is not here."""
    if name == "v1":
        found: ModuleType = minitorch.graph
        return found
    raise no_attribute(__name__, name)


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return bytes or text as text."""
    return bytes_or_text.decode(encoding) if isinstance(bytes_or_text, bytes) else bytes_or_text


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return bytes or text as bytes."""
    return bytes_or_text.encode(encoding) if isinstance(bytes_or_text, str) else bytes_or_text


as_str = as_text


def as_str_any(value: Any) -> str:
    """Return a value as text."""
    return as_text(value) if isinstance(value, bytes) else str(value)


# ── switches between TensorFlow's versions: version 1's graphs are what is here ─────────────────


def disable_eager_execution() -> None:
    """Do nothing: graphs are built and run later, which is what a program asks for by this."""


disable_v2_behavior = disable_control_flow_v2 = disable_eager_execution
disable_tensor_equality = disable_v2_tensorshape = disable_eager_execution
disable_resource_variables = enable_resource_variables = disable_eager_execution


def executing_eagerly() -> bool:
    """Return False: values are computed by sessions."""
    return False


executing_eagerly_outside_functions = control_flow_v2_enabled = executing_eagerly
resource_variables_enabled = executing_eagerly
