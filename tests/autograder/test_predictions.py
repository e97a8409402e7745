"""compare: a prediction beside what came out, and how that came about."""

import pytest

from autograder import compare


@pytest.mark.parametrize("kind", ["measured", "simulated", "computed"])
def test_what_came_out_is_called_what_it_is(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare("seconds", 2.0, **{kind: 3.0})
    compare("seconds", ..., **{kind: 3.0})
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["seconds", "predicted", "2", kind, "3", "ratio", "1.500"]
    assert second.split()[:3] == ["seconds", kind, "3"]


@pytest.mark.parametrize("given", [{}, {"measured": 1.0, "simulated": 1.0}])
def test_a_number_is_one_of_the_three(given: dict[str, float]) -> None:
    with pytest.raises(TypeError, match="one of measured, simulated, computed"):
        compare("seconds", 2.0, **given)


def test_a_count_is_exact_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    compare("bytes", 5500, 5005)
    compare("bytes", 5005, 5005)
    compare("share", 0.5, computed=0.5, exact=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.endswith("exact") for line in lines] == [False, True, True]
    assert "not exact" in lines[0]
