"""What notebooks take from `ddp_lab.lessons`; no times are asserted, only whose they are."""

from typing import Any

import numpy as np

from ddp_lab.lessons.timing import best_seconds, in_turns


def once(comm: Any, x: Any) -> Any:
    return comm.all_reduce(getattr(x, "tensor", x))


def twice(comm: Any, x: Any) -> Any:
    assert float(once(comm, x).reshape(-1)[0]) == comm.size
    return once(comm, x)


def test_each_run_has_a_time_for_each_size_and_gloo_too() -> None:
    found = in_turns(2, {"once": once, "twice": twice}, [64, 4096, 64], repeats=2, gloo=True)
    assert list(found) == ["once", "twice", "gloo"]
    assert all(times.shape == (3,) and np.isfinite(times).all() for times in found.values())


def test_arrays_lie_on_the_device_that_was_asked_for() -> None:
    found = in_turns(2, {"twice": twice}, [64], repeats=1, device="cpu")
    assert np.isfinite(found["twice"]).all()


def test_a_time_is_taken_after_what_comes_before_it() -> None:
    said: list[str] = []
    best_seconds(lambda: said.append("run"), 2, before=lambda: said.append("before"))
    assert said == ["before", "run"] * 2
