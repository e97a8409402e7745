"""What this machine's sandbox can do, tried and not assumed, and what to do about the rest.

Each finding is tried for itself: the commands, the namespaces, then a worker that looks around from
the inside. `report` gives lines for the terminal and the status to exit with: 0 where submissions
run in the full sandbox.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError
from autograder.records import Limits
from autograder.sandbox import cgroup, launch, layout, seccomp
from autograder.sandbox.host import Sandbox
from autograder.sandbox.worker_pool import Supply

OLDEST_BUBBLEWRAP = (0, 8)  # the first with --disable-userns
TRY_S = 30
SYSCTLS = {
    "apparmor": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "namespaces": "/proc/sys/user/max_user_namespaces",
}
INSTALL = "sudo apt-get install bubblewrap"
APPARMOR = """Ubuntu 24.04 and later forbid bubblewrap its namespaces until a profile allows them:
    sudo tee /etc/apparmor.d/bwrap <<'END'
    abi <abi/4.0>,
    include <tunables/global>
    profile bwrap /usr/bin/bwrap flags=(unconfined) {
      userns,
      include if exists <local/bwrap>
    }
    END
    sudo apparmor_parser --replace /etc/apparmor.d/bwrap"""
CLONE = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
NAMESPACES = "sudo sysctl -w user.max_user_namespaces=65536"
CONTAINER = (
    "In a container: give it user namespaces, mounts and an unmasked /proc (docker run "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined), or grade outside it."
)


@dataclass(frozen=True)
class Finding:
    """One thing that was tried. `needed` is False where grading is as safe without it."""

    name: str
    ok: bool
    says: str
    remedy: str = ""
    needed: bool = True

    def lines(self) -> Iterator[str]:
        """Yield it for the terminal."""
        mark = "ok  " if self.ok else "FAIL" if self.needed else "note"
        yield f"{mark}  {self.name}: {self.says}"
        if not self.ok:
            yield from (f"      {line}" for line in self.remedy.splitlines())


def report() -> tuple[list[str], int]:
    """Return lines for the terminal, and 0 where submissions run in the full sandbox, else 1."""
    findings = list(examine())
    lines = [line for finding in findings for line in finding.lines()]
    if all(finding.ok or not finding.needed for finding in findings):
        return [*lines, "Submissions run in the full sandbox."], 0
    advice = "Submissions would run unsandboxed, and reports would say so. "
    return [*lines, f"{advice}Help: when_it_does_not_work.html#what-autograder-doctor-says"], 1


def examine() -> Iterator[Finding]:
    """Try everything, from the ground up; stop where nothing further can work."""
    yield Finding("system", sys.platform == "linux", platform.platform(), "Grade on Linux.")
    if sys.platform != "linux":
        return
    yield _commands()
    namespaces = _namespaces()
    yield namespaces
    yield _filter()
    yield _users()
    yield judge_memory(cgroup.place())
    if namespaces.ok:
        yield from _inside()


def _commands() -> Finding:
    path = shutil.which("bwrap")
    if path is None:
        return Finding("bubblewrap", False, "not installed", INSTALL)
    output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = output.split()[-1].split(".") if output.split() else []
    version = tuple(int(n) for n in numbers[:2] if n.isdigit())
    return Finding("bubblewrap", version >= OLDEST_BUBBLEWRAP, output.strip(), f"{INSTALL} (0.8)")


def _namespaces() -> Finding:
    """Make the namespaces that the sandbox makes, around nothing."""
    options = ["--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc"]
    try:
        tried = subprocess.run(
            ["bwrap", *options, "--", "true"],
            env={},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=TRY_S,
            check=False,
            user=launch.user_for(0) if os.geteuid() == 0 else None,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("namespaces", False, str(error), INSTALL)
    settings = {name: _read(path) for name, path in SYSCTLS.items()}
    says = "user, mount, pid, network, ipc, uts, cgroup" if tried.returncode == 0 else tried.stderr
    return Finding("namespaces", tried.returncode == 0, says.strip(), remedy(settings))


def remedy(settings: Mapping[str, str]) -> str:
    """Return what to do where namespaces are refused, given the values of `SYSCTLS`."""
    if settings.get("apparmor") == "1":
        return APPARMOR
    if settings.get("clone") == "0":
        return CLONE
    if settings.get("namespaces") == "0":
        return NAMESPACES
    return CONTAINER


def _filter() -> Finding:
    program = seccomp.program()
    refused = f"{len(seccomp.DENIED)} calls refused"
    says = refused if program else f"no table for {platform.machine()}"
    return Finding(
        "system calls", program is not None, says, "x86_64 and aarch64 are known.", False
    )


def _users() -> Finding:
    """As root the interpreter must be one that another user can reach, or be moved."""
    if os.geteuid() != 0:
        return Finding("user", True, f"user {os.geteuid()}; each submission has its own namespace")
    hidden = launch.unreachable(layout.find())
    tools = [name for name in ("unshare", "setpriv", "mount", "sh") if shutil.which(name) is None]
    says = f"root; submissions run as users from {launch.FIRST_USER}"
    if hidden:
        says += f"; bound to where they can be read: {', '.join(hidden[:2])}"
    missing = f"{', '.join(tools)} not installed: sudo apt-get install util-linux"
    return Finding("user", not (hidden and tools), says, missing)


def judge_memory(place: Path | None) -> Finding:
    """Say how memory is limited, from where workers' control groups can be made."""
    if place is not None:
        return Finding("memory", True, f"a control group below {place}")
    says = "watched from outside, every 20 ms; no memory control group can be written"
    oldest = f"systemd {cgroup.OLDEST_SYSTEMD} or newer, as `systemd-run --version` says"
    better = f"For one that the kernel keeps ({oldest}): {cgroup.SCOPE} ..."
    return Finding("memory", False, says, better, needed=False)


def _inside() -> Iterator[Finding]:
    """Start real workers and let them look around."""
    supply = Supply(wall="bubblewrap")
    try:
        with Sandbox(Limits(), source=supply) as student:
            facts = student.probe(look_around)
            with student.pinned(min(os.sched_getaffinity(0))):
                held = not student.notes
        warm = not supply.reasons
        cold = f"Each worker is started afresh, ten times slower: {'; '.join(supply.reasons)}"
        yield Finding("warm start", warm, "a worker in about 10 ms", cold, needed=False)
        says = "timed questions run on one core" if held else "timed questions run on any core"
        better = "Their ratios scatter more. Give the judge CAP_SYS_NICE, or grade as another user."
        yield Finding("core", held, says, better, needed=False)
        yield from judge(facts)
    except AutograderError as error:
        yield Finding(
            "worker", False, str(error), "This is a defect if all above is ok: report it."
        )
    finally:
        supply.close()


def look_around() -> dict[str, object]:
    """Run inside the sandbox: return what is seen there."""
    import ctypes
    import os
    import socket
    from pathlib import Path

    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    written = []
    for folder in (Path("/"), Path("/usr"), Path("/dev"), Path("/etc"), Path(os.__file__).parent):
        try:
            (folder / "written").touch()
        except OSError:
            continue
        written.append(str(folder))
    return {
        "environment": [name for name in os.environ if "SUDO" in name or "SSH" in name],
        "interfaces": [name for _, name in socket.if_nameindex()],
        "processes": sum(entry.name.isdigit() for entry in Path("/proc").iterdir()),
        "capabilities": int(status["CapEff"], 16),
        "filter": status.get("Seccomp", "0").strip(),
        "written": written,
        "nested": ctypes.CDLL(None).unshare(0x10000000) == 0,
    }


def judge(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what `look_around` saw against what it should have seen."""
    defect = "This is a defect: report it, with this page."
    yield Finding("network", facts["interfaces"] == ["lo"], str(facts["interfaces"]), defect)
    alone = facts["processes"] <= 2
    yield Finding("processes", alone, f"{facts['processes']} are seen from inside", defect)
    few = facts["capabilities"] == 0 and not facts["nested"]
    yield Finding("privileges", few, "no capability, no nested namespace", defect)
    yield Finding("files", not facts["written"], f"written: {facts['written'] or 'none'}", defect)
    yield Finding("environment", not facts["environment"], "empty but for constants", defect)
    filtered = facts["filter"] == "2" or seccomp.program() is None
    yield Finding("call filter", filtered, f"mode {facts['filter']}", defect)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
