"""The demos of minitorch: pages are those that their scripts write, notebooks run."""

import importlib.util
import json
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

DEMOS = Path(__file__).parents[2] / "labs" / "demos"
NAMES = [
    "adaptive_batching",
    "attention",
    "autodiff_stepper",
    "continuous_batching",
    "graph_passes",
    "language_model",
    "loop_nest",
    "memory_plan",
    "search_race",
    "switch_merge_tokens",
    "symbolic_and_imperative",
]


def script(name: str, file: str = "build.py") -> ModuleType:
    path = DEMOS / name / file
    spec = importlib.util.spec_from_file_location(f"demo_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_the_one_that_its_script_writes(name: str, tmp_path: Path) -> None:
    script(name).main([str(tmp_path / "page.html")])
    fresh = (tmp_path / "page.html").read_text(encoding="utf-8")
    kept = (DEMOS / name / f"{name}.html").read_text(encoding="utf-8")
    assert fresh == kept, f"run: python labs/demos/{name}/build.py"


@pytest.mark.parametrize("name", NAMES)
def test_the_notebooks_code_runs_and_every_choice_in_it_can_be_shown(name: str) -> None:
    cells = json.loads((DEMOS / name / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    for control in ("batching", "example", "graph"):
        chooser = names.get(control)
        for option in getattr(chooser, "options", ()):
            chooser.value = option  # type: ignore[attr-defined]
            stage = names["stage"]
            assert len(stage.children[0].scenes[0]["steps"]) > 1  # type: ignore[attr-defined]


def test_what_heads_look_at_is_what_a_model_trained_anew_looks_at() -> None:
    recorded = script("attention", "recorded.py")
    kept = json.loads((DEMOS / "attention" / "recorded.json").read_text(encoding="utf-8"))
    assert {float(temperature) for temperature in kept} == {*recorded.TEMPERATURES}
    weights = recorded.trained()
    for temperature, old in kept.items():
        new = recorded.run(weights, float(temperature))
        assert new["words"] == old["words"]
        for rows in zip(*old["heads"], *new["heads"], strict=True):
            np.testing.assert_allclose(rows[:2], rows[2:], atol=2e-3)
    says = " ".join(kept["1.0"]["words"])
    assert says == "old dog saw red cat so red cat was seen by old dog"
    row = recorded.sentences(np.random.default_rng(1), 1)[:, :-1]
    whole, _ = recorded.logits_of(weights, row, {})
    cache: dict[str, object] = {}
    parts = [recorded.logits_of(weights, part, cache)[0] for part in np.split(row, [6, 7], axis=1)]
    together = np.concatenate([part.detach().numpy() for part in parts], axis=1)
    np.testing.assert_allclose(together, whole.detach().numpy(), rtol=1e-9, atol=1e-9)


def follows_its_rule(record: dict[str, Any], batching: str) -> bool:
    """Return whether calls are those of a scheduler, and leave no request out."""
    left: dict[int, int] = {}  # tokens still to come, by request in a slot
    slots: dict[int, int] = {}
    for call, _, _, requests, at in record["calls"]:
        for request, slot in zip(requests, at, strict=True):
            if call == "start":
                if request in left or slot in slots.values():
                    return False
                left[request], slots[request] = record["requests"][request][2], slot
            elif slots.get(request) != slot:
                return False
            left[request] -= 1
            if not left[request]:
                del slots[request]
        if call == "step" and batching == "continuous" and len(slots) > len(requests):
            return False  # one in a slot had no token
    return not any(left.values()) and len(left) == len(record["requests"])


def test_recorded_batches_follow_their_rules_and_a_server_of_now_does_as_recorded() -> None:
    recorded = script("continuous_batching", "recorded.py")
    kept = json.loads((DEMOS / "continuous_batching" / "recorded.json").read_text("utf-8"))
    for batching, runs in kept.items():
        assert [*runs] == [str(load) for load in recorded.LOADS]
        assert all(follows_its_rule(run, batching) for run in runs.values())
        for load, run in runs.items():
            assert [tuple(r) for r in run["requests"]] == recorded.requests_of(int(load))
            assert all(a[2] <= b[1] for a, b in pairwise(run["calls"]))  # one at a time
    torn = json.loads(json.dumps(kept["static"]["4"]))
    del torn["calls"][-1]
    assert not follows_its_rule(torn, "static")
    at_once = [(0.0, 1, new) for new in (1, 4, 2, 2, 3, 1)]
    for batching in recorded.BATCHINGS:
        new = recorded.run(at_once, batching)
        assert follows_its_rule(new, batching)
        assert all(0 < a <= b for a, b in zip(new["first_token_ms"], new["done_ms"], strict=True))
