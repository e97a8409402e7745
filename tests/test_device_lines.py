"""`docs/gpu.md` names the lines that only a device reaches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="no CUDA device is what it is about")
def test_the_page_names_every_statement_that_only_a_device_reaches() -> None:
    command = [sys.executable, "scripts/device_lines.py", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPU_DEVICE": "cuda"}
    environment.pop("REFUSE_SKIPS", None)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
