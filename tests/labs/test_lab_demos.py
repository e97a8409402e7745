"""The lecture demos: pages that scripts write are fresh, notebooks hold no outputs."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

DEMOS = Path(__file__).parents[2] / "labs" / "demos"


def script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"demo_{path.parent.name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_ring_players_page_is_the_one_that_its_script_writes(tmp_path: Path) -> None:
    script(DEMOS / "ring_player" / "build.py").main([str(tmp_path / "page.html")])
    fresh = (tmp_path / "page.html").read_text(encoding="utf-8")
    kept = (DEMOS / "ring_player" / "ring_player.html").read_text(encoding="utf-8")
    assert fresh == kept, "run: python labs/demos/ring_player/build.py"


def test_demo_notebooks_hold_no_outputs() -> None:
    for path in DEMOS.glob("*/*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert all(not cell.get("outputs") for cell in cells)
