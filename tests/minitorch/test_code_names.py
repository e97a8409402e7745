"""What code is said to read, on every Python: their instructions differ."""

from collections.abc import Callable
from types import CodeType
from typing import Any

from minitorch.tracing.code_names import find_imports, names_of, read_by

log: list[Any] = []


def closing_over(log: list[Any], scale: float) -> dict[str, Callable[..., Any]]:
    def only_adds(x: Any) -> None:
        log.append(x)
        log.extend([x])

    def reads(x: Any) -> Any:
        log.append(x)
        return log[0] * x

    def reads_in_a_comprehension(rows: Any) -> Any:
        return [log[row] for row in rows]

    def reads_in_a_lambda(x: Any) -> Any:
        return lambda: log[0] * x

    def reads_in_a_class() -> Any:
        class Settings:
            first = log[0]

        return Settings

    def hands_on(x: Any) -> Any:
        return lambda: log.append(x)

    del scale
    return {name: f for name, f in locals().items() if callable(f)}


def of(name: str) -> CodeType:
    return closing_over([], 1.0)[name].__code__


def test_a_list_that_a_closure_only_adds_to_is_not_read() -> None:
    assert "log" not in read_by(of("only_adds"))
    assert "log" not in read_by(of("hands_on"))


def test_a_cell_of_a_closure_is_read_wherever_the_code_takes_its_content() -> None:
    for name in ("reads", "reads_in_a_comprehension", "reads_in_a_lambda", "reads_in_a_class"):
        assert "log" in read_by(of(name)), name


def test_globals_and_attributes_are_read_and_locals_are_not() -> None:
    def f(model: Any, n: int) -> Any:
        small, other = 3, n
        log.append(model.scale)
        return [log[i] for i in range(other + small)]

    assert {"scale", "log", "range"} <= names_of(f.__code__)
    assert {"scale", "log", "range"} <= read_by(f.__code__)
    assert not {"model", "n", "small", "other", "i"} & (names_of(f.__code__) | read_by(f.__code__))


def test_a_function_without_steps_as_cython_makes_them_reads_nothing() -> None:
    code = of("only_adds").replace(co_code=b"", co_consts=(), co_linetable=b"")
    assert not names_of(code) | read_by(code) | find_imports(code)
