"""The same attacks on a judge that runs as an ordinary user, where these tests run as root.

What that user cannot reach (an interpreter or a checkout in root's home) is bound to where it can,
in a mount namespace that ends with the test.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOBODY = 65534
ATTACKS = (
    "calls_the_kernel or exits_with_success or forges_frames or forks_without_end or kills_ or "
    "leaves_survivors or makes_links or reads_environment or reads_checks or takes_all_memory or "
    "uses_the_network or waits_for_the_next or fills_the_disk or deadlocks or wakes_what"
)
# $1 user, then pairs of a closed folder and what to keep of it up to --, then the command.
SCRIPT = """set -e; user=$1; shift
mount -t tmpfs porch /mnt; n=0
save=""
for path in $KEEP; do n=$((n + 1)); mkdir /mnt/$n; mount --bind "$path" /mnt/$n; done
for path in $CLOSED; do mount -t tmpfs -o mode=755 closed "$path"; done
n=0
for path in $KEEP; do n=$((n + 1)); mkdir -p "$path"; mount --bind /mnt/$n "$path"; done
cd "$PROJECT"
exec setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"
"""


def closed_above(path: Path) -> Path | None:
    """Return the uppermost folder above `path` that only its owner may enter."""
    shut = [folder for folder in path.parents if not folder.stat().st_mode & 0o001]
    return shut[-1] if shut else None


@pytest.mark.sandbox
@pytest.mark.timeout(600)
def test_the_corpus_is_stopped_for_an_ordinary_user_too() -> None:
    if os.geteuid() != 0:
        return  # then `test_attacks` has just shown it
    project = Path(__file__).resolve().parent.parent.parent
    needed = [Path(sys.base_prefix).resolve(), Path(sys.prefix), project]
    kept = {path: shut for path in needed if (shut := closed_above(path)) is not None}
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-k", f"({ATTACKS}) and not zygote"]
    done = subprocess.run(
        [
            *(str(shutil.which("unshare")), "--mount", "--propagation", "private"),
            *("sh", "-c", SCRIPT, "sh", str(NOBODY), *pytest_),
            str(Path(__file__).parent / "test_attacks.py"),
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": "/tmp",
            "KEEP": " ".join(map(str, kept)),
            "CLOSED": " ".join(map(str, set(kept.values()))),
            "PROJECT": str(project),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{len(ATTACKS.split(' or '))} passed" in done.stdout
