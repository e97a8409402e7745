"""What of the machine a worker sees, and where."""

import pytest

from autograder.sandbox.layout import SCRATCH, find, inside, original


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
