"""The sandbox's parts that need no sandbox: what is seen, what is refused, what is advised."""

import errno
import fcntl
import itertools
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autograder.errors import LimitReached, SandboxMissing
from autograder.records import MIB, Limits
from autograder.sandbox import cgroup, doctor, launch, layout, seccomp, watch
from autograder.sandbox.process import ending

PROJECT = Path(__file__).parent.parent.parent


def run_filter(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Run a system-call filter as the kernel would; return its verdict."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    at, held = 0, 0
    while True:
        operation, if_true, if_false, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        if operation == 0x20:
            held = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x06:
            return value
        else:
            test = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}
            at += if_true if test[operation] else if_false


ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
X86_64, AARCH64 = 0xC000003E, 0xC00000B7


@pytest.mark.parametrize(
    ("arch", "number", "argument", "verdict"),
    [
        *((X86_64, 0, 0, ALLOW), (X86_64, 59, 0, ALLOW), (X86_64, 101, 0, EPERM)),
        *((X86_64, 272, 0, EPERM), (X86_64, 435, 0, ENOSYS), (X86_64, 0x40000000, 0, EPERM)),
        *((X86_64, 56, 0x3D0F00, ALLOW), (X86_64, 56, 17 | 0x10000000, EPERM)),
        *((X86_64, 41, 1, ALLOW), (X86_64, 41, 2, ALLOW), (X86_64, 41, 40, EPERM)),
        *((X86_64, 41, 17, EPERM), (X86_64, 319, 0, EPERM), (0x40000003, 11, 0, KILL)),
    ],
)
def test_the_filter_refuses_by_number_and_by_argument(
    arch: int, number: int, argument: int, verdict: int
) -> None:
    program = seccomp.program("x86_64")
    assert program is not None
    assert run_filter(program, arch, number, argument) == verdict


def test_the_filter_refuses_locks_and_watches_of_files_that_all_sandboxes_share() -> None:
    no_locks = 0x00050000 | errno.ENOLCK
    for machine, arch, fcntl_, flock in (("x86_64", X86_64, 72, 73), ("aarch64", AARCH64, 25, 32)):
        program = seccomp.program(machine)
        assert program is not None
        set_lock = (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW, fcntl.F_SETLEASE, fcntl.F_NOTIFY)
        assert {run_filter(program, arch, fcntl_, 3, command) for command in set_lock} == {no_locks}
        others = (fcntl.F_GETFL, fcntl.F_SETFD, fcntl.F_DUPFD_CLOEXEC)
        assert {run_filter(program, arch, fcntl_, 5, command) for command in others} == {ALLOW}
        assert run_filter(program, arch, flock) == ENOSYS
    assert run_filter(program, AARCH64, 26) == EPERM


def test_the_filter_has_its_own_numbers_for_each_machine() -> None:
    program = seccomp.program("aarch64")
    assert program is not None
    assert run_filter(program, AARCH64, 117) == EPERM
    assert run_filter(program, AARCH64, 101) == ALLOW
    assert run_filter(program, X86_64, 0) == KILL
    assert seccomp.program("pdp11") is None


def test_nothing_of_the_project_is_seen_but_the_packages_and_the_worker() -> None:
    seen = [Path(outside) for outside, _ in layout.find().mounts if outside is not None]
    ours = [p.relative_to(PROJECT) for p in seen if p.is_relative_to(PROJECT)]
    site = [p for p in ours if "site-packages" in p.parts]
    others = {str(p) for p in ours if p not in site}
    worker = {f"autograder/{name}.py" for name in layout.WORKER_FILES}
    assert others == {*layout.COURSE} | worker
    assert not any(PROJECT.is_relative_to(p) for p in seen)


def test_the_judge_is_covered_where_it_lies_in_a_folder_that_is_seen(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "autograder").mkdir(parents=True)
    (site / "labs").mkdir()
    assert layout.cover([site], site / "autograder") == [
        site / "autograder",
        site / "labs",
    ]
    checkout = tmp_path / "checkout"
    (checkout / "autograder").mkdir(parents=True)
    assert layout.cover([tmp_path], checkout / "autograder") == [checkout]
    assert layout.cover([site], checkout / "autograder") == []


def test_what_only_the_owner_can_read_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o700)
    (inner / "file").write_text("")
    assert not launch.reachable(str(inner))
    assert not launch.reachable(str(inner / "file"))
    assert launch.reachable("/usr/bin/env")


def test_no_two_sandboxes_of_a_process_share_a_user() -> None:
    users = {launch.user_for(number) for number in range(100)}
    assert len(users) == 100
    assert all(launch.FIRST_USER <= user < 65536 for user in users)


def test_usage_is_summed_over_a_tree_of_processes() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as parent:
        while watch.usage(parent.pid)[2] < 2:
            os.sched_yield()
        resident, _, count = watch.usage(parent.pid)
        assert count == 2
        assert resident > 4 * MIB
        counted = watch.proportional(parent.pid)
        assert counted is None or counted < resident
        parent.communicate(b"\n", timeout=30)
    assert not watch.running(parent.pid)


ENDS = [OSError(errno.ESRCH, "ended in mid-read"), OSError(errno.ENOENT, "ended"), b""]


@pytest.mark.parametrize("end", ENDS, ids=repr)
def test_a_process_that_ends_in_mid_read_is_gone(end: OSError | bytes) -> None:
    me = os.getpid()

    def read(path: str) -> bytes:
        if isinstance(end, OSError):
            raise end
        return end

    assert watch.running(me)
    assert not watch.running(me, read)
    assert not watch.moves(me, read)
    assert list(watch.descendants(me, read)) == [me]
    assert watch.usage(me, read) == (0, 0.0, 0)
    assert watch.proportional(me, read) == 0


def test_a_thread_that_ends_in_mid_read_hides_no_process_of_another() -> None:
    go_on = threading.Event()

    def parent() -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            started.append(child.pid)
            begun.set()
            go_on.wait()
            child.communicate(b"\n")

    started: list[int] = []
    begun = threading.Event()
    thread = threading.Thread(target=parent)
    thread.start()
    begun.wait()
    me, main = os.getpid(), str(threading.main_thread().native_id)

    def read(path: str) -> bytes:
        if path.split("/")[-2] == main:
            raise ProcessLookupError
        return watch.read_all(path)

    found = list(watch.descendants(me, read))
    moves = watch.moves(started[0], lambda path: b"1 (python) R")
    go_on.set()
    thread.join()
    assert started[0] in found
    assert moves


def test_what_starts_processes_faster_than_they_are_stopped_is_told() -> None:
    numbers = itertools.count(1 << 30)  # of no process
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as root:
        with (
            pytest.raises(LimitReached, match="went on starting"),
            watch.stopped(root.pid, lambda path: b"%d" % next(numbers)),
        ):
            raise AssertionError
        root.communicate(b"\n", timeout=30)


def test_a_process_may_call_itself_by_any_bytes() -> None:
    code = r"open('/proc/self/comm', 'wb').write(b'\xff) Z \xfe'); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert watch.running(process.pid)
        assert watch.usage(process.pid)[2] == 1
        assert watch.stat(process.pid)[0] in "SR"
        process.communicate(b"\n", timeout=30)


def test_a_tree_over_its_memory_is_told_so() -> None:
    with pytest.raises(LimitReached, match="memory limit") as caught:
        watch.check([os.getpid()], Limits(memory_bytes=MIB))
    assert caught.value.kind == "memory"
    watch.check([os.getpid()], Limits(memory_bytes=1 << 50, cpu_s=1e9))
    with pytest.raises(LimitReached, match="CPU time") as caught:
        watch.check([os.getpid()], Limits(memory_bytes=1 << 50, cpu_s=0))
    assert caught.value.kind == "cpu"


@pytest.mark.parametrize(
    ("code", "signalled", "says"),
    [(3, False, "exit code 3"), (11, True, "SIGSEGV"), (24, True, "SIGXCPU"), (99, True, "99")],
)
def test_an_ending_is_told_in_words(code: int, signalled: bool, says: str) -> None:
    assert says in ending(code, signalled=signalled)


def test_a_control_group_is_used_where_memory_is_handed_on(tmp_path: Path) -> None:
    ours = tmp_path / "slice" / "session"
    ours.mkdir(parents=True)
    control = ours.parent / "cgroup.subtree_control"
    control.write_text("cpu pids\n")
    assert cgroup.place(tmp_path, "0::/slice/session\n") is None
    control.write_text("cpu memory pids\n")
    assert cgroup.place(tmp_path, "0::/slice/session\n") == ours.parent
    assert cgroup.place(tmp_path, "4:memory:/x\n0::/\n") is None
    assert cgroup.place(tmp_path, "4:memory:/x\n") is None


def test_a_control_group_of_our_own_is_told_to_hand_memory_on(tmp_path: Path) -> None:
    (tmp_path / "scope" / cgroup.SUBGROUP).mkdir(parents=True)
    control = tmp_path / "scope" / "cgroup.subtree_control"
    control.write_text("")
    assert cgroup.place(tmp_path, f"0::/scope/{cgroup.SUBGROUP}\n") == tmp_path / "scope"
    assert control.read_text() == "+memory +pids"


def test_a_control_group_holds_the_limits_and_tells_who_ran_out(tmp_path: Path) -> None:
    group = cgroup.ControlGroup(tmp_path, "one", Limits(memory_bytes=5 * MIB, processes=7))
    group.add([123])
    assert (group.path / "memory.max").read_text() == str(5 * MIB)
    assert (group.path / "pids.max").read_text() == "9"
    assert (group.path / "cgroup.procs").read_text() == "123"
    assert not group.out_of_memory()
    (group.path / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    assert group.out_of_memory()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"apparmor": "1", "clone": "1"}, "profile bwrap /usr/bin/bwrap"),
        ({"apparmor": "0", "clone": "0"}, "unprivileged_userns_clone=1"),
        ({"namespaces": "0"}, "max_user_namespaces"),
        ({}, "container"),
    ],
)
def test_the_doctor_says_what_to_do_about_refused_namespaces(
    settings: dict[str, str], says: str
) -> None:
    assert says in doctor.remedy(settings)


GOOD = {
    "environment": [],
    "interfaces": ["lo"],
    "processes": 2,
    "capabilities": 0,
    "filter": "2",
    "written": [],
    "nested": False,
}


def test_the_doctor_says_which_systemd_makes_the_control_group_that_it_suggests() -> None:
    """Debian 12 has 252, which knows no DelegateSubgroup=."""
    finding = doctor.judge_memory(None)
    assert "DelegateSubgroup=" in finding.remedy and "systemd 254 or newer" in finding.remedy
    assert not finding.needed and doctor.judge_memory(Path("/sys/fs/cgroup/x")).ok


def test_the_doctor_is_content_with_a_tight_sandbox() -> None:
    assert all(finding.ok for finding in doctor.judge(GOOD))


@pytest.mark.parametrize(
    "leak",
    [
        *({"interfaces": ["lo", "eth0"]}, {"processes": 99}, {"capabilities": 1}, {"nested": True}),
        *({"written": ["/usr"]}, {"environment": ["SSH_AUTH_SOCK"]}, {"filter": "0"}),
    ],
    ids=lambda leak: next(iter(leak)),
)
def test_the_doctor_finds_each_leak(leak: dict[str, object]) -> None:
    assert [f.ok for f in doctor.judge({**GOOD, **leak})].count(False) == 1


def test_a_package_that_others_may_not_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir(mode=0o755)
    init = package / "__init__.py"
    init.write_text("")
    init.chmod(0o600)
    for path in (package, init):
        with pytest.raises(SandboxMissing, match=f"chmod -R o\\+rX {path}"):
            launch.check_mode(path)
    init.chmod(0o644)
    launch.check_mode(package)
    package.chmod(0o750)
    with pytest.raises(SandboxMissing, match="root alone"):
        launch.check_mode(package)
