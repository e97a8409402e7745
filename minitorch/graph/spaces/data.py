"""`tf.data`: datasets and the iterators over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..queues.dataset import Dataset as Dataset
from ..queues.iterators import Iterator as Iterator
from .absent import Named, no_attribute

Transformation = Callable[[Dataset], Dataset]


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """Return an iterator whose `initializer` begins anew."""
    return dataset.make_initializable_iterator(shared_name)


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """Return an iterator that goes through the elements once, without being initialised."""
    return dataset.make_one_shot_iterator()


def get_output_types(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the dtypes of an element."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the shapes of an element, as far as they are known."""
    return dataset_or_iterator.output_shapes


class experimental(metaclass=Named):
    """`tf.data.experimental`: what `Dataset.apply` takes."""

    known_as = "minitorch.graph.spaces.data.experimental"

    AUTOTUNE = -1

    @staticmethod
    def shuffle_and_repeat(
        buffer_size: int, count: int | None = None, seed: int | None = None
    ) -> Transformation:
        """The elements in another order each time, `count` times."""
        return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)

    @staticmethod
    def map_and_batch(
        map_func: Callable[..., Any],
        batch_size: int,
        num_parallel_batches: int | None = None,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
    ) -> Transformation:
        """What a function builds from each element, so many stacked."""
        return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)

    @staticmethod
    def unbatch() -> Transformation:
        """The rows of the elements' values as elements."""
        return lambda dataset: dataset.unbatch()

    @staticmethod
    def enumerate_dataset(start: int = 0) -> Transformation:
        """The elements beside their numbers."""
        return lambda dataset: dataset.enumerate(start)


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, and say what to use."""
    raise no_attribute(__name__, name)
