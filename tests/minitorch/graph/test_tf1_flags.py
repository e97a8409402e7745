"""A program's settings from its command line."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError

flags = tf.app.flags


@pytest.fixture(autouse=True)
def _defined() -> Iterator[None]:
    held = sys.argv
    sys.argv = ["program"]
    flags.DEFINE_string("data_dir", "data", "where the data are")
    flags.DEFINE_integer("steps", 10, "how many")
    flags.DEFINE_float("rate", 0.5, "how far")
    flags.DEFINE_boolean("fast", True, "whether to hurry")
    flags.DEFINE_list("layers", "8,4", "how wide")
    flags.DEFINE_enum("mode", "train", ["train", "eval"], "what to do")
    yield
    sys.argv = held


def test_defaults_hold_until_the_command_line_says_otherwise() -> None:
    assert tf.flags.FLAGS is flags.FLAGS
    assert flags.FLAGS.flag_values_dict() == {
        "data_dir": "data",
        "steps": 10,
        "rate": 0.5,
        "fast": True,
        "layers": ["8", "4"],
        "mode": "train",
    }
    rest = flags.FLAGS.parse(
        ["program", "--steps=3", "-rate", "0.25", "--nofast", "file", "--unknown=1",
         "--layers=1,2,3", "--mode", "eval"]
    )  # fmt: skip
    assert rest == ["file", "--unknown=1"]
    found = flags.FLAGS
    assert (found.steps, found.rate, found.fast, found.mode) == (3, 0.25, False, "eval")
    assert found.layers == ["1", "2", "3"]
    found.rate = 1.0
    assert found.rate == 1.0


def test_the_command_line_is_read_at_the_first_question() -> None:
    sys.argv = ["program", "--data_dir", "elsewhere", "--fast=false"]
    assert flags.FLAGS.data_dir == "elsewhere"
    assert flags.FLAGS.fast is False


def test_a_program_is_started_with_what_is_left_and_ends_with_its_answer() -> None:
    seen: list[Any] = []

    def main(argv: list[str]) -> int:
        seen.append((argv, flags.FLAGS.steps))
        return 3

    with pytest.raises(SystemExit) as ended:
        tf.app.run(main, ["program", "--steps=7", "more"])
    assert ended.value.code == 3
    assert seen == [(["program", "more"], 7)]


@pytest.mark.parametrize("word", ["--steps=many", "--fast=perhaps", "--mode=rest", "--steps"])
def test_a_value_of_another_kind_is_refused_by_name(word: str) -> None:
    with pytest.raises(GraphError, match=word.lstrip("-").partition("=")[0]):
        flags.FLAGS.parse(["program", word])


def test_a_flag_that_nobody_defined_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no 'speed'"):
        flags.FLAGS.speed  # noqa: B018
