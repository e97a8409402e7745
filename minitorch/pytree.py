"""Tuples, lists, dicts and dataclasses, nested: taken apart into leaves, and put together again.

A dataclass that is compared as an object (`eq=False`) is a leaf.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

Rebuild = Callable[[Iterator[Any]], Any]
"""Returns a structure whose leaves are the next of an iterator."""


def walk(
    value: object,
    leaf: Callable[[object], Rebuild],
    whole: Callable[[Sequence[object]], bool] = lambda _: False,
    kinds: list[Hashable] | None = None,
) -> Rebuild:
    """Call `leaf` with whatever in `value` is no structure; return what puts others in the places.

    Args:
        leaf: returns what takes that place: most often `next`, the next leaf that is given.
        whole: tells which lists and tuples are leaves themselves.
        kinds: gets the type and the size or the keys of each structure, in the order of the walk.
    """
    if isinstance(value, Mapping):
        into = OrderedDict if isinstance(value, OrderedDict) else dict
        if kinds is not None:
            kinds.append((into, *value))
        named = {key: walk(item, leaf, whole, kinds) for key, item in value.items()}
        return lambda take: into((key, part(take)) for key, part in named.items())
    if isinstance(value, list | tuple) and not whole(value):
        if kinds is not None:
            kinds.append((type(value), len(value)))
        parts = [walk(item, leaf, whole, kinds) for item in value]
        make = getattr(value, "_make", type(value))
        return lambda take: make([part(take) for part in parts])
    if is_dataclass(value) and not isinstance(value, type) and type(value).__eq__ != object.__eq__:
        names = [field.name for field in fields(value)]
        if kinds is not None:
            kinds.append((type(value), *names))
        members = [walk(getattr(value, name), leaf, whole, kinds) for name in names]
        return lambda take: _with_members(value, names, [member(take) for member in members])
    return leaf(value)


def _with_members(value: Any, names: Sequence[str], members: Sequence[object]) -> Any:
    """Return a copy of a dataclass, frozen or not, with other values of its fields."""
    other = copy.copy(value)
    for name, member in zip(names, members, strict=True):
        object.__setattr__(other, name, member)
    return other


def map_leaves(function: Callable[[Any], object], tree: object) -> Any:
    """Return a structure with `function` of each leaf."""
    return walk(tree, lambda value: lambda _: function(value))(iter(()))
