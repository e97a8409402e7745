"""What of the machine a worker sees, and where."""

from dataclasses import replace
from pathlib import Path

import pytest

from autograder.sandbox.layout import SCRATCH, find, gpus, inside, original, visible
from autograder.sandbox.worker_pool import Supply


@pytest.mark.parametrize("path", ["/tmp/clone/.venv/lib", "/dev/shm/clone", "/home/a/tmp", "/tmpx"])
def test_nothing_to_be_seen_stands_where_scratch_space_is_mounted(path: str) -> None:
    """A worker mounts an empty /tmp of its own, which would hide a checkout there."""
    assert not any(inside(path).startswith(f"{scratch}/") for scratch in SCRATCH)
    assert original(inside(path)) == path


def test_only_what_lies_in_scratch_space_moves() -> None:
    assert inside("/home/a/tmp") == "/home/a/tmp"
    assert inside("/tmpx") == "/tmpx"


def test_every_mount_of_this_checkout_is_outside_scratch_space() -> None:
    targets = [target for _, target in find().mounts]
    assert not [t for t in targets if any(t.startswith(f"{scratch}/") for scratch in SCRATCH)]


def test_a_judge_with_a_gpu_shows_its_nodes_and_no_others(tmp_path: Path) -> None:
    names = ("nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "kfd", "dri")
    for name in (*names, "mem", "kvm", "sda", "nvme0n1", "nvidia-caps"):
        (tmp_path / name).touch()
    assert {Path(path).name for path in gpus(tmp_path)} == set(names)
    assert find().devices == find().environment == ()


def test_which_gpus_are_the_judges_goes_in_and_nothing_else() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "1", "TOKEN": "x", "PATH": "/bin"}
    assert visible(environment) == (("CUDA_VISIBLE_DEVICES", "1"),)


def nodes() -> tuple[list[str], str | None]:
    import os
    from pathlib import Path

    return sorted(path.name for path in Path("/dev").iterdir()), os.environ.get(
        "CUDA_VISIBLE_DEVICES"
    )


@pytest.mark.sandbox
@pytest.mark.parametrize("warm", [True, False])
def test_nodes_are_seen_inside_where_they_are_asked_for(warm: bool) -> None:
    """`/dev/kmsg` stands for a node that a sandbox has not by itself; one that is gone is left."""
    from autograder.sandbox.host import Sandbox

    supply = Supply(wall="bubblewrap", warm=warm)
    with Sandbox(source=supply) as student:
        before = student.probe(nodes)
    supply.close()
    supply = Supply(wall="bubblewrap", warm=warm)
    more = {"devices": ("/dev/kmsg", "/dev/none"), "environment": (("CUDA_VISIBLE_DEVICES", "3"),)}
    supply._layout = replace(supply._layout, **more)  # type: ignore[arg-type]
    with Sandbox(source=supply) as student:
        after = student.probe(nodes)
    supply.close()
    assert before[1] is None
    assert after == (sorted([*before[0], "kmsg"]), "3")
