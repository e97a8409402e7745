"""Rules found by enumeration: the known ones are found, and false ones are not."""

import pytest

from minitorch.errors import GraphError
from minitorch.graph.discovery.search import Rule, discover, follows, holds, match, show


@pytest.fixture(scope="module")
def rules() -> list[Rule]:
    return discover()


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


def test_a_rule_reads_as_a_formula() -> None:
    assert str(ASSOCIATIVITY) == "((A @ B) @ C) = (A @ (B @ C))"
    assert show(("left", WHOLE)) == "left((A @ concat(B, C)))"
