"""`tf.data`: datasets and the iterators over them."""

from __future__ import annotations

from typing import Any

from ..queues.dataset import Dataset as Dataset
from ..queues.iterators import Iterator as Iterator
from .absent import no_attribute


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, and say what to use."""
    raise no_attribute(__name__, name)
