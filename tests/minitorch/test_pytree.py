"""Structures taken apart and rebuilt, against torch's own pytree."""

from collections import OrderedDict, namedtuple
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitorch.pytree import map_leaves, walk

torch_pytree = pytest.importorskip("torch.utils._pytree")

Point = namedtuple("Point", "x y")
KEYS = st.sampled_from("abc")
TREES = st.recursive(
    st.integers(0, 3),
    lambda part: st.one_of(
        st.lists(part, max_size=3),
        st.lists(part, max_size=3).map(tuple),
        st.dictionaries(KEYS, part, max_size=3),
        st.dictionaries(KEYS, part, max_size=3).map(OrderedDict),
        st.builds(Point, part, part),
    ),
    max_leaves=8,
)


def taken_apart(tree: object) -> tuple[list[Any], list[Hashable], Any]:
    leaves: list[Any] = []
    kinds: list[Hashable] = []

    def leaf(value: object) -> Any:
        leaves.append(value)
        kinds.append("leaf")
        return next

    return leaves, kinds, walk(tree, leaf, kinds=kinds)


@given(TREES)
def test_leaves_come_in_torchs_order_and_go_back(tree: object) -> None:
    leaves, _, rebuild = taken_apart(tree)
    expected, spec = torch_pytree.tree_flatten(tree)
    assert leaves == expected
    doubled = [2 * leaf for leaf in leaves]
    rebuilt, wanted = rebuild(iter(doubled)), torch_pytree.tree_unflatten(doubled, spec)
    assert rebuilt == wanted
    assert repr(rebuilt) == repr(wanted)  # a tuple is no list, and a Point is no tuple
    assert repr(map_leaves(lambda leaf: 2 * leaf, tree)) == repr(wanted)


@given(TREES, TREES)
def test_kinds_tell_apart_what_torchs_specs_tell_apart(one: object, other: object) -> None:
    specs = [torch_pytree.tree_structure(tree) for tree in (one, other)]
    assert (taken_apart(one)[1] == taken_apart(other)[1]) == (specs[0] == specs[1])


def test_nesting_is_told_apart() -> None:
    trees = [([1], 2), (1, [2]), ([1, 2],), [1, 2], (1, 2), {"a": 1, "b": 2}, {"b": 1, "a": 2}]
    kinds = [tuple(taken_apart(tree)[1]) for tree in trees]
    assert len(set(kinds)) == len(trees)
