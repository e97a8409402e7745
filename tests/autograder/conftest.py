"""Notebooks made in memory, and graders of the sample lab without a sandbox."""

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from autograder.authoring.source import load_lab
from autograder.grading.grade import LabGrader
from autograder.records import Lab
from autograder.student.local import LocalStudent

SAMPLE = Path(__file__).parent / "sample_labs" / "scale_and_sum"

Cells = Sequence[tuple[str, str]]


@pytest.fixture
def sample_directory() -> Path:
    return SAMPLE


@pytest.fixture
def sample_lab() -> Lab:
    return load_lab(SAMPLE)


@pytest.fixture
def notebook() -> Callable[[Cells], bytes]:
    """Return the bytes of a notebook with these (kind, text) cells."""

    def make(cells: Cells) -> bytes:
        found = [{"cell_type": kind, "source": text, "metadata": {}} for kind, text in cells]
        content = {"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(content).encode()

    return make


@pytest.fixture
def grader(sample_lab: Lab) -> LabGrader:
    """Return a grader that runs in this process."""
    return LabGrader(sample_lab, open_student=lambda limits: contextlib.nullcontext(LocalStudent()))


@pytest.fixture
def lab_copy(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies the sample lab, with texts replaced in its files."""

    def copy(**replacements: Sequence[tuple[str, str]]) -> Path:
        target = tmp_path / "copied_lab"
        target.mkdir()
        for name in ("lab", "checks", "wrong"):
            text = (SAMPLE / f"{name}.py").read_text()
            for old, new in replacements.get(name, ()):
                assert old in text
                text = text.replace(old, new)
            (target / f"{name}.py").write_text(text)
        return target

    return copy
