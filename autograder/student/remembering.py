"""A student that remembers in words what it was asked last, and what came back.

So that a check which cannot go on with an answer can say what the answer was.
"""

from collections.abc import Callable
from typing import Any

from autograder.records import RanksRun
from autograder.student.local import show_briefly
from autograder.student.protocol import Student


class Remembering:
    """Hands everything on to `student`. `last` is what it gave: "f(x=3) returned None", or "".

    `without_result` is the function that was called last, if it returned None, on every rank.
    """

    def __init__(self, student: Student) -> None:
        self._student = student
        self.last = self.without_result = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._student, name)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Call the learner's function. See `Student.call`."""
        result = self._student.call(name, *args, **kwargs)
        parts = [*map(show_briefly, args), *(f"{k}={show_briefly(v)}" for k, v in kwargs.items())]
        self.last = f"{name}({', '.join(parts)}) returned {show_briefly(result)}"
        self.without_result = name if result is None else ""
        return result

    def value(self, name: str, /) -> Any:
        """Return the learner's variable. See `Student.value`."""
        value = self._student.value(name)
        self.last = f"{name} is {show_briefly(value)}"
        return value

    def probe(self, function: Callable[..., Any], /, **inputs: Any) -> Any:
        """Run `function` beside the learner's code. See `Student.probe`."""
        result = self._student.probe(function, **inputs)
        self.last = f"what this check asked of your code gave {show_briefly(result)}"
        self.without_result = ""
        return result

    def ranks(
        self, function: str | Callable[..., Any], world_size: int, *args: Any, **options: Any
    ) -> RanksRun:
        """Run ranks. See `Student.ranks`."""
        run = self._student.ranks(function, world_size, *args, **options)
        name = function if isinstance(function, str) else "what this check asked of your code"
        results = ", ".join(map(show_briefly, run.results))
        self.last = f"{name} on {world_size} ranks returned {results}"
        is_named = isinstance(function, str) and all(result is None for result in run.results)
        self.without_result = name if is_named else ""
        return run
