"""Rules found by enumeration: the known ones are found, false ones are not, and graphs gain."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.core.order import schedule
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.discovery.improve import improve
from minitorch.graph.discovery.search import Rule, discover, follows, holds, match, show


@pytest.fixture(autouse=True)
def _fresh_graph_on_a_machine_that_is_the_same_everywhere() -> Iterator[None]:
    tf.reset_default_graph()
    with use(Fixed()):
        yield


@pytest.fixture(scope="module")
def rules() -> list[Rule]:
    return discover()


def operators(fetches: Any) -> list[str]:
    return [n.op.name for n in schedule(fetches, ()) if n.op is not None]


AB, BC, AC = ("matmul", "A", "B"), ("matmul", "B", "C"), ("matmul", "A", "C")
WHOLE = ("matmul", "A", ("concat", "B", "C"))
ASSOCIATIVITY = Rule((("matmul", AB, "C"),), (("matmul", "A", BC),))
MERGING = Rule((AB, AC), (("left", WHOLE), ("right", WHOLE)))


def test_the_order_of_products_and_products_that_share_an_input_are_found(
    rules: list[Rule],
) -> None:
    assert ASSOCIATIVITY in rules
    assert MERGING in rules


def test_found_rules_hold_and_none_follows_from_the_others_by_name_only(rules: list[Rule]) -> None:
    assert len(rules) < 30
    for rule in rules:
        assert holds(rule, seed=2)
    for rule in rules:
        for other in rules:
            if rule is not other:
                sides = ("", *other.before, *other.after), ("", *rule.before, *rule.after)
                assert not match(*sides, {}), f"{rule} is {other}"


@pytest.mark.parametrize(
    "wrong",
    [
        Rule((AB,), (("matmul", "B", "A"),)),
        Rule((("transpose", AB),), (("matmul", ("transpose", "A"), ("transpose", "B")),)),
        Rule((("relu", ("add", "A", "B")),), (("add", ("relu", "A"), ("relu", "B")),)),
        Rule((AB, AC), (("right", WHOLE), ("left", WHOLE))),
        Rule((("left", "A"),), ("A",)),
    ],
    ids=str,
)
def test_a_wrong_rule_is_refused(wrong: Rule) -> None:
    assert not holds(wrong)
    x = tf.placeholder(tf.float64, (3, 3))
    with pytest.raises(GraphError, match=r"does not hold"):
        improve([tf.matmul(x, x)], [wrong])


def test_what_follows_from_other_rules_is_told_apart_from_what_does_not() -> None:
    deep = Rule((("matmul", ("matmul", AB, "C"), "A"),), (("matmul", "A", ("matmul", BC, "A")),))
    assert follows(deep, [ASSOCIATIVITY])
    commuted = Rule((AB,), (("matmul", "B", "A"),))
    assert not follows(commuted, [ASSOCIATIVITY])


def test_other_operators_have_other_rules() -> None:
    found = [str(rule) for rule in discover(("relu", "neg", "add", "mul"), largest=3, inputs=2)]
    assert "relu(relu(A)) = relu(A)" in found
    assert "neg(neg(A)) = A" in found
    assert "(A * B) = (B * A)" in found
    with pytest.raises(GraphError, match="got operator 'exp'"):
        discover(("exp",))
    with pytest.raises(GraphError, match="over 0 variables"):
        discover(inputs=0)
    with pytest.raises(GraphError, match="got 'A = A', expected rules"):
        improve([], ["A = A"])  # type: ignore[list-item]


def test_a_chain_of_products_gets_cheaper_by_a_discovered_rule(rules: list[Rule]) -> None:
    a, b, v = (tf.placeholder(tf.float64, s) for s in ((64, 64), (64, 64), (64, 1)))
    before = [tf.matmul(tf.matmul(a, b), v)]
    after = improve(before, rules)
    assert [n.shape for n in schedule(after, ()) if n.op is not None] == [(64, 1), (64, 1)]
    _agree(before, after)


def test_products_that_share_an_input_become_one_by_a_discovered_rule(rules: list[Rule]) -> None:
    x, a, b = (tf.placeholder(tf.float64, s) for s in ((4096, 64), (64, 3), (64, 5)))
    before = [tf.matmul(x, a), tf.matmul(x, b)]
    after = improve(before, rules)
    assert sorted(operators(after)) == ["cat", "index", "index", "matmul"]
    assert [n.shape for n in after] == [(4096, 3), (4096, 5)]
    _agree(before, after)


def test_a_rule_that_does_not_pay_is_not_applied(rules: list[Rule]) -> None:
    x, a, b = (tf.placeholder(tf.float64, s) for s in ((4, 64), (64, 64), (64, 64)))
    before = [tf.matmul(x, a), tf.matmul(x, b)]
    assert improve(before, rules) == before


def test_a_product_that_feeds_the_other_is_not_merged_with_it(rules: list[Rule]) -> None:
    x, a = (tf.placeholder(tf.float64, (8, 8)) for _ in range(2))
    first = tf.matmul(x, a)
    before = [first, tf.matmul(x, first)]
    _agree(before, improve(before, [r for r in rules if len(r.before) == 2]))


def test_a_rule_reads_as_a_formula() -> None:
    assert str(ASSOCIATIVITY) == "((A @ B) @ C) = (A @ (B @ C))"
    assert show(("left", WHOLE)) == "left((A @ concat(B, C)))"


def _agree(before: list[Any], after: list[Any]) -> None:
    rng = np.random.default_rng(0)
    inputs = [n for n in schedule(before, ()) if n.op is None]
    feeds = {n: rng.normal(size=tuple(n.shape)) for n in inputs}
    with tf.Session() as session:
        got, want = session.run(after, feeds), session.run(before, feeds)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
