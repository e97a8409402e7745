"""The charts: what they compute, what their pages hold, and that their colours can be read."""

import itertools
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import ddp_lab.show
from ddp_lab import cost, register_algorithm
from ddp_lab.data_parallel.measurement.backward_profile import BackwardProfile
from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes
from ddp_lab.errors import InvalidArgument, UnknownAlgorithm
from ddp_lab.show import (
    CollectivesExplorer,
    DdpTimeline,
    DistributionOptions,
    Lineage,
    MatrixSplit,
    PipelineSchedules,
    PlanOnMesh,
    Roofline,
    ScalingCurves,
    ServerTimeline,
    TrainingCurves,
    explore,
)
from ddp_lab.show.lineage import list_recomputed, list_restarted
from ddp_lab.show.matrix_split import WAYS, plan
from ddp_lab.show.options import WAYS as DISTRIBUTIONS
from ddp_lab.show.options import WORKERS
from ddp_lab.show.options import rows as costs_of_ways
from ddp_lab.simulate import published
from tests.pages import Loads, contrast

FOLDER = Path(ddp_lab.show.__file__).parent
DEMOS = Path(__file__).parents[2] / "labs" / "demos"
QUALITY = {way: {str(n): 0.9 for n in WORKERS} for way in DISTRIBUTIONS}
HOSTILE = "</script><script>alert(1)</script> @MODULE@"


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return explore([2, 3, 4, 8], {"all_reduce": ("ring", "tree", "recursive_doubling")})


@pytest.fixture
def charts(rows: list[dict[str, Any]]) -> Any:
    made = [
        CollectivesExplorer(rows, ranks=4),
        DdpTimeline(title=HOSTILE),
        ServerTimeline(HOSTILE, backups=1),
        ScalingCurves(title=HOSTILE),
        TrainingCurves({"a <run>": [3.0, 2.0], HOSTILE: [1.0, 4.0]}, title=HOSTILE),
        PipelineSchedules(title=HOSTILE),
        MatrixSplit(title=HOSTILE),
        PlanOnMesh(title=HOSTILE),
        DistributionOptions(QUALITY, title=HOSTILE),
        Lineage(title=HOSTILE),
        Roofline(title=HOSTILE),
    ]
    yield made
    for chart in made:
        chart.close()


def test_pages_load_nothing_and_no_text_leaves_their_scripts(charts: Any) -> None:
    for chart in charts:
        text, loads = chart.page(), Loads()
        loads.feed(text)
        assert loads.urls == []
        assert "default-src 'none'" in text
        assert not re.search(r"\bimport\b[^;]*from|url\((?!#)|fetch\(", text)
        assert "<script>alert" not in text
        (data,) = re.findall(r"^const state = (\{.*\});", text, re.MULTILINE)
        assert set(json.loads(data)) == set(chart.state_names)


def test_posters_are_well_formed_and_say_what_they_show(charts: Any) -> None:
    for chart in charts:
        root = ElementTree.fromstring(chart.poster())
        assert root.attrib["aria-label"] == chart.summary()
        bundle, _ = chart._repr_mimebundle_()
        assert bundle["image/svg+xml"] == chart.poster()
        assert bundle["text/plain"] == chart.summary()
        assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_poster_of_collectives_has_units_and_lines_that_differ_without_colour(
    rows: list[dict[str, Any]],
) -> None:
    poster = CollectivesExplorer(rows, ranks=8).poster()
    assert "time, predicted" in poster
    assert {"100 µs", "1 ms"} <= set(re.findall(r">([^<]+)</text>", poster))
    dashes = re.findall(r'stroke-width="2"(?: stroke-dasharray="([^"]+)")?', poster)[::2]
    assert all(a != b for a, b in pairwise(dashes))


def test_a_chart_saves_its_page(charts: Any, tmp_path: Path) -> None:
    path = charts[1].save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == charts[1].page()


# Scaling


def test_the_scaling_curves_are_the_predictions_of_the_published_page() -> None:
    for name, run in published.cited_runs().items():
        chart = ScalingCurves(model=name)
        for devices, _ in run.points:
            how = {"bucket_bytes": run.bucket_bytes, "strategy": run.strategy}
            want = published.step(run.workload, run.cluster, devices, run.each, **how)
            assert chart.efficiency(devices) == pytest.approx(want.efficiency, rel=1e-9)
        assert run.source in chart.summary()
        chart.close()


def test_more_bandwidth_and_fewer_bytes_scale_better() -> None:
    chart = ScalingCurves(model="VGG-16, P100s")
    slow = chart.efficiency(512)
    chart.gbit = 100.0
    assert chart.efficiency(512) > slow > chart.efficiency(512, overlap=False) - 0.3
    chart.strategy, chart.servers = "parameter_server", 1
    assert chart.efficiency(512) < slow
    chart.close()


def test_a_run_that_nobody_cited_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no such run: got 'AlexNet'"):
        ScalingCurves(model="AlexNet")


# Steps, shares and bytes of the explorer


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_explorers_times_are_the_closed_forms(rows: list[Any], ranks: int) -> None:
    chart = CollectivesExplorer(rows, ranks=ranks, latency_us=3.0, bandwidth_gb_s=2.0)
    for row in chart.chosen():
        name = row["algorithm"]
        for n_bytes in (2.0**10, 2.0**20, 2.0**30):
            want = cost.all_reduce_time(name, n_bytes, ranks, 3e-6, 0.5e-9)
            assert chart.seconds(row, n_bytes) == pytest.approx(want, rel=1e-9)
    chart.close()


def test_a_ring_sends_its_share_and_a_tree_more(rows: list[Any]) -> None:
    by_name = {(row["algorithm"], row["ranks"]): row for row in rows}
    for ranks in (2, 3, 4, 8):
        assert by_name["ring", ranks]["busiest"] == pytest.approx(2 * (ranks - 1) / ranks)
        assert by_name["ring", ranks]["messages"] == 2 * ranks * (ranks - 1)
        assert by_name["tree", ranks]["messages"] == 2 * (ranks - 1)
    assert by_name["recursive_doubling", 8]["steps"] == 3


def test_the_fastest_is_named(rows: list[Any]) -> None:
    chart = CollectivesExplorer(rows, ranks=8, size_log2=10)
    assert "recursive_doubling is fastest" in chart.summary()
    chart.size_log2 = 30.0
    assert "ring is fastest" in chart.summary()
    chart.close()


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(UnknownAlgorithm, match="pigeon"):
        explore([2], {"all_reduce": ("pigeon",)})


def test_an_algorithm_that_is_registered_anew_is_run_anew() -> None:
    def direct(comm: Any, x: Any, *, root: int) -> Any:
        if comm.rank != root:
            return comm.recv(root)
        for rank in range(1, comm.size):
            comm.send(x, rank)
        return x

    def twice(comm: Any, x: Any, *, root: int) -> Any:
        direct(comm, x, root=root)
        return direct(comm, x, root=root)

    seen = []
    for fn in (direct, twice):
        register_algorithm("broadcast", "under_trial", fn)
        (found,) = explore([4], {"broadcast": ("under_trial",)})
        seen.append(found["messages"])
    assert seen == [3, 6]


# The timeline


def rects(svg: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(svg).findall(".//{*}rect[@height='28.0']")


def test_the_timeline_takes_layers_as_profiled_and_a_recorded_step() -> None:
    profile = BackwardProfile(0.002, [0.001, 0.003], [1000, 3000], ["b", "a"])
    span = Span("bucket 1", "communication", 5_000_000, 8_000_000)
    wait = Span("wait", "compute", 6_000_000, 8_000_000)
    recorded = StepTimes(1_000_000, 3_000_000, 8_000_000, 9_000_000, (span,), (wait,))
    chart = DdpTimeline.of(profile, 2, recorded, latency_us=1000.0, bucket_mib=1 / 2**20)
    step = chart.step()
    assert step.forward == 0.002
    assert step.ready_at == pytest.approx((0.003, 0.006))
    assert [b.layers for b in step.buckets] == [(0,), (1,)]
    drawn = [(s["lane"], s["name"], round(s["start"], 6)) for s in chart.recorded]
    assert ("communication", "bucket 1", 0.004) in drawn
    assert ("compute", "backward", 0.002) in drawn
    assert not any(name == "wait" for _, name, _ in drawn)
    hues = [(s["name"], round(s["end"], 6), s["hue"]) for s in chart.recorded]
    assert ("backward", 0.005, "dl-a") in hues  # then it waits: a gap
    assert [h for h in hues if h[0] == "bucket 1"] == [
        ("bucket 1", 0.005, "dl-c"),
        ("bucket 1", 0.007, "dl-b"),
    ]
    ends = [float(r.attrib["x"]) + float(r.attrib["width"]) for r in rects(chart.poster())]
    assert max(ends) <= float(ElementTree.fromstring(chart.poster()).attrib["width"])
    titles = [r.findtext("{*}title") for r in rects(chart.poster())]
    assert [titles.count(n) for n in ("backward", "optimizer", "bucket 1", "wait")] == [1, 1, 2, 0]
    chart.layers = 4
    assert [len(chart.step().buckets), chart.step().compute_time] == [4, pytest.approx(0.006)]
    chart.close()


@pytest.mark.parametrize("wrong", [{"layers": 0}, {"ranks": 0}, {"mib": -1.0}, {"mib": np.nan}])
def test_a_step_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="no such step"):
        DdpTimeline(**wrong)


# The servers


def test_late_workers_are_dropped_or_waited_for() -> None:
    alone = ServerTimeline(share=0.2, backups=0, workers=5)
    helped = ServerTimeline(share=0.2, backups=3, workers=5)
    assert alone.run().makespan == pytest.approx(alone.times().max(axis=0).sum())
    assert alone.run().dropped == 0 < helped.run().dropped
    assert helped.run().makespan < alone.run().makespan
    for chart in (alone, helped):
        drawn = chart.poster().count('class="exposed"')
        assert drawn == chart.run().dropped
        chart.close()


@pytest.mark.parametrize(
    "wrong", [{"workers": 0}, {"backups": 5}, {"consistency": "some"}, {"staleness": -1}]
)
def test_a_run_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="no such run"):
        ServerTimeline(**wrong)


# The curves


def test_points_arrive_as_they_are_added() -> None:
    curves, heard = TrainingCurves(), []
    curves.observe(lambda change: heard.append(change.new), "runs")
    curves.add("a", 2)
    curves.add("a", np.float32(1.5), step=10)
    curves.add("b", 3)
    assert [sorted(runs) for runs in heard] == [["a"], ["a"], ["a", "b"]]
    assert curves.runs == {"a": [[0, 2.0], [10.0, 1.5]], "b": [[0, 3.0]]}
    assert curves.summary() == "Training: loss a 1.5 at 10; b 3 at 0."
    curves.close()


def test_a_long_run_stays_whole_and_drawable() -> None:
    losses = [1 / (1 + step) for step in range(5000)]
    curves = TrainingCurves({"long": losses[:4900]})
    for loss in losses[4900:]:
        curves.add("long", loss)
    xs = [x for x, _ in curves.runs["long"]]
    assert len(xs) <= 2000
    assert xs[0] == 0 and xs[-1] > 4900
    assert len({b - a for a, b in pairwise(xs)}) == 1
    curves.close()


def test_a_note_stands_beside_its_run() -> None:
    curves = TrainingCurves({"half": [2.0], "whole": [1.0]})
    curves.note("half", "1.6 KiB a step")
    assert curves.summary() == "Training: loss half 2 at 0 (1.6 KiB a step); whole 1 at 0."
    assert curves.notes == {"half": "1.6 KiB a step"}
    assert ">1.6 KiB a step<" in curves.poster()
    curves.close()


def test_no_curve_of_a_poster_hides_another() -> None:
    curves = TrainingCurves({name: [2.0, 1.0] for name in "abcd"})
    lines = re.findall(r'points="[^"]+" stroke-width="([\d.]+)"', curves.poster())
    widths = [float(width) for width in lines[1::2]]  # of a curve, then of its sample
    assert len(widths) == 4 and all(a - b >= 1 for a, b in pairwise(widths))
    curves.close()


def test_what_is_no_number_is_a_gap_or_refused() -> None:
    curves = TrainingCurves({"a": [1.0, float("nan"), float("inf"), 2.0]})
    assert [y for _, y in curves.runs["a"]] == [1.0, None, None, 2.0]
    json.dumps(curves.runs, allow_nan=False)
    ElementTree.fromstring(curves.poster())
    with pytest.raises(InvalidArgument, match=r"got 'low' for 'a'\. Pass loss\.item"):
        curves.add("a", "low")
    curves.close()


def test_charts_without_data_can_be_shown() -> None:
    curves = TrainingCurves()
    ElementTree.fromstring(curves.poster())
    assert curves.summary() == "Training."
    curves.close()


# Colours


def test_every_colour_can_be_read_on_its_paper_in_light_and_dark() -> None:
    assert contrast("#777777", "#ffffff") < 4.5  # a specimen that must fail
    css = (FOLDER / "charts.css").read_text()
    colours = re.findall(r"--dl-(\w+): light-dark\((#\w{6}), (#\w{6})\);", css)
    assert len(colours) == css.count("  --dl-")
    for k in (1, 2):
        theme = {colour[0]: colour[k] for colour in colours}
        paper = theme.pop("paper")
        low = {name: round(contrast(colour, paper), 2) for name, colour in theme.items()}
        assert min(low.values()) >= 4.5, low


@pytest.mark.parametrize(
    "name",
    [
        "collectives_explorer",
        "ddp_timeline",
        "distribution_options",
        "lineage",
        "matrix_split",
        "parameter_servers",
        "pipeline_schedules",
        "plan_on_mesh",
        "roofline",
        "scaling_curves",
    ],
)
def test_the_demos_page_is_what_its_script_writes(name: str, tmp_path: Path) -> None:
    import runpy

    build = runpy.run_path(str(DEMOS / name / "build.py"))
    build["main"]([str(tmp_path / "page.html")])
    assert (tmp_path / "page.html").read_text() == (DEMOS / name / f"{name}.html").read_text()


def test_a_pipelines_poster_shows_every_action_and_says_what_the_simulator_does() -> None:
    for name, held in (
        ("gpipe", "8 micro-batches"),
        ("1f1b", "4 micro-batches"),
        ("naive", "1 micro-batch"),
        ("zero_bubble", "8"),
    ):
        chart = PipelineSchedules(schedule=name, ranks=4, microbatches=8, chunks=1)
        step = chart.step()
        assert f"idle {step.bubble_fraction:.1%}" in chart.summary()
        for action in itertools.chain(*step.actions):
            assert f"<title>{action}</title>" in chart.poster()
        if name != "zero_bubble":
            assert f"holds up to {held}." in chart.summary()
        chart.close()


def numbers_in(shape: tuple[int, int], cut: str, ranks: int) -> list[np.ndarray]:
    """Return the shares of a matrix of ones to come by a cut; whole ones where there is none."""
    whole = np.random.default_rng(0).normal(size=shape)
    return np.split(whole, ranks, int(cut == "column")) if cut else [whole] * ranks


@pytest.mark.parametrize("way", WAYS)
def test_the_plan_of_a_split_sends_what_lets_every_rank_have_the_products(way: str) -> None:
    """The forward collectives of a plan, done by hand on its shares, give Z on every rank."""
    ranks, rows, width, hidden = 2, 3, 4, 8
    cuts, sent = plan(way, rows, width, hidden)
    x, w1 = numbers_in((rows, width), cuts["X"], ranks), numbers_in((width, hidden), cuts["W1"], 2)
    w2 = numbers_in((hidden, width), cuts["W2"], ranks)
    forward = {where[-1]: (name, n) for name, n, where in sent if where.startswith("forward")}

    def done(parts: list[np.ndarray], array: str) -> list[np.ndarray]:
        name, n = forward.get(array, ("", parts[0].size))
        if name == "all_gather":
            parts = [np.concatenate(parts, 1)] * ranks
        elif name == "all_reduce":
            parts = [sum(parts)] * ranks
        elif name == "reduce_scatter":
            assert n == parts[0].size
            return np.split(sum(parts), ranks, 1)
        assert n == parts[0].size
        return parts

    h = [np.maximum(part, 0) for part in done([a @ b for a, b in zip(x, w1, strict=True)], "H")]
    z = done([a @ b for a, b in zip(h, w2, strict=True)], "Z")
    whole = [numbers_in(shape, "", 1)[0] for shape in ((rows, width), (width, hidden))]
    expected = np.maximum(whole[0] @ whole[1], 0) @ numbers_in((hidden, width), "", 1)[0]
    for part in z:
        np.testing.assert_allclose(part, expected)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PipelineSchedules(schedule="gpip"), "got 'gpip'"),
        (lambda: PipelineSchedules(ratio=0.0), "ratio 0.0"),
        (lambda: MatrixSplit(way="rows"), "got 'rows'"),
        (lambda: MatrixSplit(ranks=5), "on 5 ranks"),
    ],
)
def test_pictures_of_model_parallelism_that_make_no_sense_are_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        make()


def test_lineage_makes_what_is_lost_again_and_no_more() -> None:
    """Narrow steps cost the lost row, a shuffle all before it that nobody and no disk has."""
    assert list_recomputed(4, 6, shuffle=0, cached=0, stored=0) == {(1, s) for s in range(1, 7)}
    behind = {(p, s) for p in range(4) for s in (1, 2, 3)} | {(1, 4), (1, 5), (1, 6)}
    assert list_recomputed(4, 6, shuffle=4, cached=0, stored=0) == behind
    held = {(1, s) for s in range(1, 7)}  # the others have the results of step 3
    assert list_recomputed(4, 6, shuffle=4, cached=3, stored=0) == held
    assert list_recomputed(4, 6, shuffle=4, cached=0, stored=5) == {(1, 6)}


def test_ranks_of_an_all_reduce_go_back_to_the_checkpoint_together() -> None:
    assert list_restarted(3, 4, stored=0) == {(r, s) for r in range(3) for s in range(1, 5)}
    assert list_restarted(3, 4, stored=3) == {(r, 4) for r in range(3)}
    assert (
        len(list_restarted(3, 4, stored=4)) == 12
    )  # the fourth step's own results were not stored


def test_ways_to_distribute_cost_what_their_formulas_say() -> None:
    ways = costs_of_ways(4, 0.1, 100e6, 1e9)
    assert ways["copies"][:2] == (60.0, 0.0)
    assert ways["end"].compute_s == ways["each"].compute_s == 15.0
    once = cost.all_reduce_time("ring", 100e6, 4, 20e-6, 1e-9)
    assert ways["end"].send_s == pytest.approx(once)
    assert ways["each"].send_s == pytest.approx(600 * once)
    assert ways["model"].compute_s == pytest.approx(15.0 * (1 + 3 / 8))  # GPipe's bubble, 8 batches
    assert ways["model"].memory_bytes < ways["each"].memory_bytes < ways["copies"].memory_bytes
    alone = costs_of_ways(1, 0.1, 100e6, 1e9)
    assert {row.compute_s + row.send_s for row in alone.values()} == {60.0}


def test_recorded_qualities_are_those_of_the_same_arithmetic() -> None:
    kept = json.loads((DEMOS / "distribution_options" / "recorded.json").read_text())
    assert set(kept["each"].values()) == set(kept["model"].values()) == {kept["end"]["1"]}
    assert list(kept["end"].values()) == sorted(kept["end"].values(), reverse=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Roofline(device="abacus"),
        lambda: Roofline(own={"flops": 1e9}),
        lambda: Lineage(partitions=1),
        lambda: Lineage(stored=-1),
        lambda: DistributionOptions({}),
        lambda: DistributionOptions(QUALITY, workers=3),
    ],
)
def test_nonsense_is_refused(make: Any) -> None:
    with pytest.raises(InvalidArgument, match="expected"):
        make()


def test_a_roofline_says_what_bounds_a_task() -> None:
    assert "memory bounds" in Roofline(own={"flops": 1e11, "bytes": 1e10}).summary()
    assert "computing bounds" in Roofline(log_intensity=9).summary()
