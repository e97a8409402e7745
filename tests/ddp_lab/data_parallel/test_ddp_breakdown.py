"""Where a step's time goes."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import LADDER, DistributedDataParallel, Overlapped
from ddp_lab.data_parallel.measurement.breakdown import Breakdown, Span, StepTimes, measure, merge

MS = 1_000_000


def step(communication: list[tuple[int, int]], blocked: list[tuple[int, int]]) -> StepTimes:
    """Forward 0 to 10 ms, backward to 30, optimizer to 32."""
    return StepTimes(
        0,
        10 * MS,
        30 * MS,
        32 * MS,
        tuple(Span(f"all-reduce {a}", "communication", a * MS, b * MS) for a, b in communication),
        tuple(Span(f"wait {a}", "compute", a * MS, b * MS) for a, b in blocked),
    )


def test_communication_beside_compute_is_hidden_and_the_rest_exposed() -> None:
    parts = step([(12, 18), (16, 29)], [(25, 28), (28, 29)]).parts_ms()
    assert parts == {
        "forward": 10.0,
        "backward compute": 16.0,
        "exposed communication": 4.0,
        "hidden communication": 13.0,
        "optimizer": 2.0,
        "step": 32.0,
    }


def test_communication_that_blocks_hides_nothing() -> None:
    parts = step([(12, 18), (20, 30)], [(12, 18), (20, 30)]).parts_ms()
    assert parts["hidden communication"] == 0.0
    assert parts["exposed communication"] == 16.0


def test_the_table_has_a_line_for_each_part() -> None:
    table = Breakdown(0, [step([(12, 18)], [])]).table()
    assert "forward                   10.000   31.2%" in table
    assert len(table.splitlines()) == 7


def marks(svg: str) -> Counter[str]:
    """Count the boxes of each kind; malformed XML raises."""
    root = ElementTree.fromstring(svg)
    return Counter(box.get("class", "") for box in root.iter("{http://www.w3.org/2000/svg}rect"))


def test_the_picture_has_a_bar_for_each_part_to_scale() -> None:
    svg = Breakdown(3, [step([(12, 18), (16, 29)], [(25, 29)])]).svg()
    # each kind once more in the legend; waiting is drawn among compute and over the message
    assert marks(svg) == {
        "page": 1, "forward": 2, "backward": 2, "exposed": 3, "hidden": 3, "optimizer": 2
    }  # fmt: skip
    boxes = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")
    width = {box.get("class"): float(box.get("width")) for box in reversed(list(boxes))}
    assert width["backward"] == pytest.approx(2 * width["forward"], abs=0.2)
    assert "A step of rank 3 takes 32 ms: forward 10 ms" in svg
    assert "prefers-color-scheme:dark" in svg and "all-reduce 12, 6 ms" in svg


def test_a_step_without_messages_can_be_drawn() -> None:
    assert marks(Breakdown(0, [step([], [])]).svg())["hidden"] == 1


def test_messages_that_overlap_stand_in_rows_of_their_own() -> None:
    root = ElementTree.fromstring(Breakdown(0, [step([(11, 14), (12, 20), (15, 18)], [])]).svg())
    at = [box.get("y") for box in root.iter() if box.get("class") == "hidden"][:3]
    assert len(set(at)) == 2


def test_a_notebook_shows_the_typical_iteration() -> None:
    short, long = step([], []), replace(step([], []), end_ns=99 * MS)
    run = Breakdown(0, [long, short, short])
    bundle = run._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == run.table()
    assert "A typical step of rank 0: 32 ms" in bundle["image/svg+xml"]


def run_of(wrap: Any) -> Any:
    models = [nn.Sequential(*(nn.Linear(40, 40) for _ in range(4))) for _ in range(2)]

    def run(comm: Any) -> Breakdown:
        model = wrap(models[comm.rank], comm)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(8, 40)
        return measure(model, lambda m: m(x).square().mean(), optimizer, iterations=3)

    return ddp_lab.launch(run, 2, transport="threads", timeout_s=60)


@pytest.mark.parametrize(
    "wrap", [*LADDER, lambda m, c: DistributedDataParallel(m, None, None, 0, None, True, c)]
)
def test_every_step_of_the_ladder_can_be_measured(wrap: Any) -> None:
    for breakdown in run_of(wrap):
        ms = breakdown.medians_ms()
        assert len(breakdown.steps) == 3
        assert ms["step"] >= ms["forward"] > 0
        assert ms["exposed communication"] > 0
        for times in breakdown.steps:
            parts = times.parts_ms()
            whole = sum(v for k, v in parts.items() if k not in ("step", "hidden communication"))
            assert whole == pytest.approx(parts["step"])


def test_only_overlap_hides_communication() -> None:
    blocking = run_of(LADDER[3])[0].medians_ms()["hidden communication"]
    assert blocking == 0.0
    small = run_of(lambda m, c: Overlapped(m, c, 0.001))[0]
    assert all(len(times.communication) == 4 for times in small.steps)
    assert small.medians_ms()["hidden communication"] > 0.0


def test_the_trace_of_all_ranks_is_valid_json_with_a_lane_for_communication(tmp_path: Path) -> None:
    runs = run_of(Overlapped)
    runs[0].save(tmp_path / "one.json")
    events = json.loads((tmp_path / "one.json").read_text())["traceEvents"]
    assert {e["tid"] for e in events} == {"compute", "communication"}
    assert {e["pid"] for e in merge(runs)["traceEvents"]} == {0, 1}
    assert all(e["dur"] >= 0 and e["ph"] == "X" for e in events)


def test_something_that_does_not_communicate_cannot_be_measured() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(TypeError, match="nothing to measure in a Linear"):
        measure(model, lambda m: m(torch.ones(1, 1)).sum(), torch.optim.SGD(model.parameters()))
