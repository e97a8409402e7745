"""What a lab withholds raises, by whatever name it is called, and is whole again afterwards."""

import functools
import gc
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from autograder.errors import StudentError
from autograder.student.local import LocalStudent
from autograder.student.withheld import withheld, withhold


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@counted
def double(x: float) -> float:
    return 2 * x


def doubles(x: float) -> Iterator[float]:
    yield 2 * x


class Doubling:
    def __init__(self, x: float) -> None:
        self.x = x

    def step(self) -> float:
        return 2 * self.x

    @property
    def doubled(self) -> float:
        return 2 * self.x


class Own(Doubling):
    def __init__(self, x: float) -> None:
        self.x = x


@pytest.fixture
def library() -> Iterator[ModuleType]:
    module = ModuleType("library_of_a_test")
    vars(module).update(double=double, doubles=doubles, Doubling=Doubling, TABLE={"double": double})
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


ANSWERS: dict[str, tuple[str, Callable[[float], float]]] = {
    "a function": ("double", lambda x: double(x)),
    "what it wraps": ("double", lambda x: double.__wrapped__(x)),  # type: ignore[attr-defined]
    "an item of a table": ("TABLE", lambda x: double(x)),
    "a generator": ("doubles", lambda x: next(doubles(x))),
    "a class": ("Doubling", lambda x: Doubling(x).step()),
    "a class derived from it": ("Doubling", lambda x: Own(x).step()),
    "a property": ("Doubling", lambda x: Own(x).doubled),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_withheld_raises_while_a_check_runs(library: ModuleType, answer: str) -> None:
    name, f = ANSWERS[answer]
    student = LocalStudent({"f": f}, withheld=(f"{library.__name__}:{name}", "not_installed:f"))
    with pytest.raises(StudentError, match=f"{library.__name__}.{name}: .* Write it out"):
        student.call("f", 1.5)
    assert f(1.5) == 3.0
    assert LocalStudent({"f": f}).call("f", 1.5) == 3.0


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = tmp_path / "package_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("from package_of_a_test.inner import double\n")
    (package / "inner.py").write_text("from math import sqrt\ndef double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package
    for name in (package.name, f"{package.name}.inner"):
        sys.modules.pop(name, None)


def test_a_package_that_nobody_has_loaded_is_withheld_when_an_answer_imports_it(
    package: Path,
) -> None:
    before = list(sys.meta_path)

    def answer(x: float) -> Any:
        return importlib.import_module(package.name).double(x)

    student = LocalStudent({"f": answer}, withheld=(f"{package.name}.inner:double",))
    assert package.name not in sys.modules
    with pytest.raises(StudentError, match=r"inner.double: .* Write it out"):
        student.call("f", 1.5)
    assert answer(1.5) == 3.0
    assert sys.meta_path == before


def test_what_is_loaded_again_is_withheld_again(package: Path) -> None:
    inner = importlib.import_module(f"{package.name}.inner")

    def answer(x: float) -> Any:
        return importlib.reload(inner).double(x)

    student = LocalStudent({"f": answer}, withheld=(f"{inner.__name__}:double",))
    with pytest.raises(StudentError, match=r"inner.double: .* Write it out"):
        student.call("f", 1.5)
    assert inner.double(1.5) == 3.0


def test_a_function_in_c_is_withheld_by_its_name(package: Path) -> None:
    inner = importlib.import_module(f"{package.name}.inner")
    withheld = (f"{inner.__name__}:sqrt",)
    with pytest.raises(StudentError, match=r"inner.sqrt: .* Write it out"):
        LocalStudent({"f": lambda x: inner.sqrt(x)}, withheld=withheld).call("f", 4.0)
    assert inner.sqrt(4.0) == 2.0


def test_a_function_of_a_module_within_the_interpreter_is_withheld_when_it_is_loaded() -> None:
    code = (
        "from autograder.student.withheld import withhold\n"
        "withhold(['xxsubtype:bench'])\n"
        "import xxsubtype\n"
        "print(xxsubtype.spamlist(), xxsubtype.__loader__.is_package('xxsubtype'))\n"
        "xxsubtype.bench\n"
        "xxsubtype.bench(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[] False\n"
    assert "RuntimeError: xxsubtype.bench: got a call" in done.stderr


def test_a_whole_package_cannot_be_imported(package: Path) -> None:
    def answer() -> Any:
        return importlib.import_module(f"{package.name}.inner").double(1.5)

    student = LocalStudent({"f": answer}, withheld=(f"{package.name}:",))
    with pytest.raises(StudentError, match=r"package_of_a_test: got an import, .* Do without it"):
        student.call("f")
    assert package.name not in sys.modules
    assert answer() == student.call("f") == 3.0  # it is there before


def test_a_function_that_was_made_of_its_code_is_withheld_too(library: ModuleType) -> None:
    copy = FunctionType(Doubling.step.__code__, {})
    name = f"{library.__name__}:Doubling.step"
    with withheld([name]):
        assert copy(Doubling(1.5)) == 3.0
    with withheld([name], copies=True), pytest.raises(RuntimeError, match="Write it out"):
        copy(Doubling(1.5))
    assert copy(Doubling(1.5)) == Doubling(1.5).step() == 3.0


def test_nothing_in_a_worker_holds_what_is_withheld(library: ModuleType) -> None:
    before, inner = list(sys.meta_path), double.__wrapped__  # type: ignore[attr-defined]
    code, inner_code = double.__code__, inner.__code__
    try:
        withhold((f"{library.__name__}:double",))
        finder = next(f for f in sys.meta_path if f not in before)
        assert not any(code in gc.get_referents(held) for held in vars(finder).values())
    finally:
        sys.meta_path[:] = before
        double.__code__, inner.__code__ = code, inner_code
