"""`tf.flags`: settings of a program by name, with defaults, from its command line.

    flags.DEFINE_float("rate", 0.1, "learning rate")
    flags.FLAGS.rate            # 0.1, or what `--rate=0.5` says

The command line is read when a flag is first asked for. What it has beside known flags is left to
the program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...errors import GraphError
from .absent import no_attribute


class Flag(NamedTuple):
    """One setting: what makes its value of a word, the default, and what it is for."""

    parse: Callable[[str], Any]
    default: Any
    help: str


class Flags:
    """The settings of a program, as attributes."""

    def __init__(self) -> None:
        vars(self).update(_defined={}, _values={}, _rest=None)

    def define(self, name: str, default: Any, help: str, parse: Callable[[str], Any]) -> None:
        """Add a setting; one that is defined again, as when a cell runs twice, starts over."""
        self._defined[name] = Flag(parse, default, help)
        self._values[name] = default
        vars(self)["_rest"] = None

    def parse(self, argv: Sequence[str] | None = None) -> list[str]:
        """Set what the command line says; return its other words.

        Raises:
            GraphError: a flag's value is not of its kind, or is missing.
        """
        words = iter((sys.argv if argv is None else list(argv))[1:])
        rest: list[str] = []
        for word in words:
            if not self._take(word, words):
                rest.append(word)
        vars(self)["_rest"] = rest
        return rest

    _parse_flags = parse

    def flag_values_dict(self) -> dict[str, Any]:
        """Return all settings by name."""
        return {name: getattr(self, name) for name in self._defined}

    def _take(self, word: str, words: Iterator[str]) -> bool:
        """Set the flag that a word names; tell whether it names one."""
        name, given, value = word.lstrip("-").partition("=")
        negated = name.removeprefix("no")
        if not word.startswith("-"):
            return False
        if name not in self._defined:
            if given or negated not in self._defined or self._defined[negated].parse is not truth:
                return False
            name, given, value = negated, "=", "false"
        flag = self._defined[name]
        if not given:
            value = "true" if flag.parse is truth else next(words, "")
        try:
            self._values[name] = flag.parse(value)
        except ValueError as error:
            raise GraphError(
                f"flags: got {value!r} for --{name} ({flag.help}): {error}."
            ) from error
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self._defined:
            known = ", ".join(sorted(self._defined)) or "none"
            raise AttributeError(f"FLAGS has no {name!r}. Defined are: {known}.")
        if self._rest is None:
            self.parse()
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if self._rest is None:
            self.parse()
        self._values[name] = value


def truth(word: str) -> bool:
    """Return the boolean that a word says."""
    found = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if word.lower() not in found:
        raise ValueError("expected true or false")
    return found[word.lower()]


FLAGS = Flags()


def DEFINE_string(flag_name: str, default_value: str | None, docstring: str) -> None:
    """Define a setting that is a word."""
    FLAGS.define(flag_name, default_value, docstring, str)


def DEFINE_integer(flag_name: str, default_value: int | None, docstring: str) -> None:
    """Define a setting that is a whole number."""
    FLAGS.define(flag_name, default_value, docstring, int)


def DEFINE_float(flag_name: str, default_value: float | None, docstring: str) -> None:
    """Define a setting that is a number."""
    FLAGS.define(flag_name, default_value, docstring, float)


def DEFINE_boolean(flag_name: str, default_value: bool | None, docstring: str) -> None:
    """Define a setting that is true or false: `--name`, `--noname`, `--name=false`."""
    FLAGS.define(flag_name, default_value, docstring, truth)


DEFINE_bool = DEFINE_boolean


def DEFINE_list(flag_name: str, default_value: Sequence[str] | None, docstring: str) -> None:
    """Define a setting that is words between commas."""
    default = default_value.split(",") if isinstance(default_value, str) else default_value
    FLAGS.define(flag_name, default, docstring, lambda word: word.split(","))


def DEFINE_enum(
    flag_name: str, default_value: str | None, enum_values: Sequence[str], docstring: str
) -> None:
    """Define a setting that is one of some words."""

    def one(word: str) -> str:
        if word not in enum_values:
            raise ValueError(f"expected one of {', '.join(enum_values)}")
        return word

    FLAGS.define(flag_name, default_value, docstring, one)


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, and say what to use."""
    raise no_attribute(__name__, name)
