"""What labs say of a device that is not there: what they would show, and what was measured."""

from pathlib import Path

from lessons.device_note import device_note

PAGE = """# NVIDIA H100

## `make test-gpu`

| test | result |

## `make bench-gpu`

2 measured in 3 s.

| what | ratio |
|---|---:|
| matmul | 0.7 |
"""


def test_a_device_is_named_with_what_is_shown_on_it() -> None:
    assert (
        device_note("NVIDIA H100", "section 4 times it") == "CUDA NVIDIA H100: section 4 times it"
    )


def test_without_one_nothing_is_invented(tmp_path: Path) -> None:
    said = device_note("", "section 4 times it", tmp_path / "nothing")
    assert said == "CUDA none: everything runs on the CPU. On a GPU section 4 times it."
    (tmp_path / "two_hosts.md").write_text("# Two hosts\n\n| no | device |\n")
    assert device_note("", "section 4 times it", tmp_path) == said


def test_what_was_measured_on_a_device_is_told_without_one(tmp_path: Path) -> None:
    (tmp_path / "nvidia-h100.md").write_text(PAGE)
    _, *lines = device_note("", "section 4 times it", tmp_path).splitlines()
    assert lines == [
        "Measured on NVIDIA H100:",
        "| what | ratio |",
        "|---|---:|",
        "| matmul | 0.7 |",
    ]
