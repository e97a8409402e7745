"""What runs in the namespaces: the switch, the first process of each host, the way into a host.

    python -I -S namespaces.py switch ORDER              ORDER is JSON, see `Hosts`
    python -I -S namespaces.py enter HOST IS_MINE COMMAND ...

The switch is process 1 of a pid namespace, and each host has a pid namespace inside that one. So
when the switch ends, for whatever reason, the kernel ends everything that runs on a host, and the
namespaces, which have no names, are gone with their last process. The switch ends when its socket
closes or the tool's process is gone.

An ordinary user is root of a user namespace that owns all of it. Commands have the user's own
number again, in a user namespace of the host inside that one, and no rights that the user has not:
one for all of a host, for processes open each other's memory only inside one.

A program of its own, and without the package's imports, because only a process with one thread
can change its user namespace. May import: the standard library.
"""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

# linux/sched.h, sys/mount.h, linux/prctl.h
NEW_FILES, NEW_NAME, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PIDS, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
PRIVATE_TREE, BIND, DETACH = 0x44000, 0x1000, 2
PR_SET_PDEATHSIG = 1

FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
FORWARDED |= {signal.SIGUSR1, signal.SIGUSR2}
NETWORK = "10.9.0"
LARGEST_PACKET = 20 * 1448  # bytes of 20 segments; `hosts.BURST_BYTES` holds 21
MESSAGE_BYTES = 65_536

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [*[ctypes.c_char_p] * 3, ctypes.c_ulong, ctypes.c_char_p]


class Refused(Exception):
    """A step that the machine did not allow: which, and what it said."""


def call(name: str, *arguments: int | bytes | None) -> None:
    """Call a function of the C library that returns 0.

    Raises:
        Refused: it returned something else.
    """
    if getattr(_libc, name)(*arguments) != 0:
        raise Refused(name, os.strerror(ctypes.get_errno()))


def mount(kind: str, folder: str, flags: int = 0) -> None:
    """Mount a new file system of a kind, or change how one is mounted."""
    call("mount", kind.encode(), folder.encode(), kind.encode(), flags, None)


def run(program: str, lines: list[str]) -> None:
    """Have `ip` or `tc` do some lines.

    Raises:
        Refused: a line failed.
    """
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([program, "-batch", "-"], input=text, capture_output=True, text=True)
    if done.returncode:
        name = Path(program).name
        raise Refused(name, (done.stderr.splitlines() or [f"{name} failed"])[0])


def map_user(inside: tuple[int, int], outside: tuple[int, int]) -> None:
    """Give user and group of a new user namespace their numbers."""
    try:
        Path("/proc/self/setgroups").write_text("deny")
        for kind, new, old in zip(("uid", "gid"), inside, outside, strict=True):
            Path(f"/proc/self/{kind}_map").write_text(f"{new} {old} 1")
    except OSError as error:
        raise Refused("uid_map", str(error.strerror)) from error


def leave_the_machine() -> tuple[int, int] | None:
    """Make the switch's namespaces; return the user whose own namespace had to own them."""
    needed = NEW_FILES | NEW_NETWORK | NEW_PIDS
    try:
        call("unshare", needed)
        return None
    except Refused:
        user = (os.geteuid(), os.getegid())
        call("unshare", NEW_USER)
        map_user((0, 0), user)
        call("unshare", needed)
        return user


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process with its parent, whose number it sees as `parent`."""
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


# the switch


def switch(order: dict[str, Any]) -> NoReturn:
    """Make the hosts, tell the tool, and obey it until it is gone."""
    control = socket.socket(fileno=order["control"])
    with reporting_refusals(control):
        order["user"] = leave_the_machine()
        if child := os.fork():
            control.close()
            os._exit(os.waitpid(child, 0)[1] and 1)
        die_with_parent(0)
        mount("none", "/", PRIVATE_TREE)
        mount("proc", "/proc")
        name_hosts(order["hosts"])
        has_netem = order["delay"] and can_delay(order["tc"])
        order["delay"] = order["delay"] if has_netem else ""
        run(order["ip"], ["link set lo up", "link add switch type bridge", *up("switch")])
        pids = [make_host(order, host) for host in range(order["hosts"])]
        pidfds = [os.pidfd_open(pid) for pid in [*pids, 1]]
        answer = json.dumps({"is_mine": bool(order["user"]), "has_netem": has_netem}).encode()
        socket.send_fds(control, [answer], pidfds)
    obey(control, order)
    os._exit(0)


@contextmanager
def reporting_refusals(control: socket.socket) -> Iterator[None]:
    """Tell the tool what was refused, and end."""
    try:
        yield
    except Refused as refused:
        step, reason = refused.args
        control.send(json.dumps({"step": step, "reason": reason}).encode())
        os._exit(1)


def obey(control: socket.socket, order: dict[str, Any]) -> None:
    """Plug and unplug cables until the tool is gone."""
    while True:
        ready, _, _ = select.select([control, order["tool"]], [], [])
        request = control.recv(MESSAGE_BYTES) if control in ready else b""
        if not request:
            return
        with reporting_refusals(control):
            run(order["ip"], [request.decode()])
            control.send(b"{}")


def name_hosts(hosts: int) -> None:
    """Let all hosts know each other by name; nothing is written outside the namespaces."""
    names = ["127.0.0.1 localhost\n"]
    for host in range(1, hosts + 1):
        names.append(f"{NETWORK}.{host} host{host}\n")
        # what a socket of both families calls a peer; torch looks that up for its log
        names.append(f"::ffff:{NETWORK}.{host} host{host}.mapped\n")
    if Path("/etc/hosts").is_file():
        mount("tmpfs", "/tmp")
        Path("/tmp/hosts").write_text("".join(names))
        call("mount", b"/tmp/hosts", b"/etc/hosts", None, BIND, None)
        call("umount2", b"/tmp", DETACH)


def can_delay(tc: str) -> bool:
    """Tell whether the kernel has netem."""
    try:
        run(tc, ["qdisc add dev lo root netem delay 1ms", "qdisc del dev lo root"])
    except Refused:
        return False
    return True


def make_host(order: dict[str, Any], host: int) -> int:
    """Start a host; return the number of its first process, which lives as long as the host."""
    reading, writing = os.pipe()
    builder = os.fork()
    if builder == 0:
        try:
            os.write(writing, b"%d\n" % build_host(order, host, writing))
        except Refused as refused:
            os.write(writing, json.dumps(refused.args).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().split("\n")
    os.waitpid(builder, 0)
    if refusals := [line for line in lines if line.startswith("[")]:
        raise Refused(*json.loads(refusals[0]))
    name = f"host{host + 1}"
    run(order["ip"], [f"link set {name} master switch", *up(name)])
    limit_rate(order, name)
    return int(lines[0])


def build_host(order: dict[str, Any], host: int, writing: int) -> int:
    """Make a host's namespaces and its link to the switch; return its first process."""
    call("unshare", NEW_FILES | NEW_NETWORK | NEW_NAME | NEW_IPC)
    socket.sethostname(f"host{host + 1}")
    if Path("/dev/shm").is_dir():
        mount("tmpfs", "/dev/shm")
    cable = f"link add eth0 type veth peer name host{host + 1} netns 1"  # 1: the switch
    address = f"address add {NETWORK}.{host + 1}/24 dev eth0"
    run(order["ip"], ["link set lo up", cable, address, *up("eth0")])
    limit_rate(order, "eth0", order["delay"])
    call("unshare", NEW_PIDS)
    return os.fork() or live(order["user"], writing)


def up(device: str) -> list[str]:
    """Return the lines that switch a device on, with no address that nobody asked for."""
    return [f"link set {device} addrgenmode none", f"link set {device} up"]


def limit_rate(order: dict[str, Any], device: str, delay: str = "") -> None:
    """Limit what a device sends, by the kernel's token bucket, and delay it."""
    root, lines = "root", []
    if order["bucket"]:
        lines.append(f"qdisc add dev {device} root handle 1: tbf {order['bucket']}")
        root = "parent 1:1"
    if delay:
        lines.append(f"qdisc add dev {device} {root} netem {delay}")
    if order["bucket"]:
        # a packet that the bucket does not hold is cut up by the processor, as by no real card
        run(order["ip"], [f"link set {device} gso_max_size {LARGEST_PACKET}"])
    if lines:
        run(order["tc"], lines)


def live(user: tuple[int, int] | None, writing: int) -> NoReturn:
    """Be the first process of a host: bury the dead, and wait for the end."""
    try:
        mount("proc", "/proc")
        if user:
            call("unshare", NEW_USER)
            map_user(user, (0, 0))
    except Refused as refused:
        os.write(writing, json.dumps(refused.args).encode())
        os._exit(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    nothing = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    while True:
        signal.pause()


# the way in


def enter(host: int, is_mine: bool, become: Callable[[], NoReturn]) -> NoReturn:
    """Run a program on a host, as if it were this process: signals go in, its end comes out.

    This process stays outside. Its guard is a child of the host's first process, for one left
    behind by a parent outside would be buried outside, if at all, and the host could not end.
    """
    folder = os.getcwd()  # noqa: PTH109 - a plain string
    kinds = NEW_FILES | NEW_NETWORK | NEW_NAME | NEW_IPC | NEW_PIDS
    call("setns", host, kinds | (NEW_USER if is_mine else 0))
    os.close(host)
    outside, inside = socket.socketpair()
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    if child := os.fork():
        inside.close()
        os.waitpid(child, 0)
        follow(outside)
    outside.close()
    if os.fork():
        os._exit(0)
    os.chdir(folder)
    guard(inside, become)


def guard(outside: socket.socket, become: Callable[[], NoReturn]) -> NoReturn:
    """Start the program; tell how it ended, and end it when nobody outside wants to know."""
    parent = os.getpid()
    if (child := os.fork()) == 0:
        outside.close()
        die_with_parent(parent)
        become()
    pidfd = os.pidfd_open(child)
    socket.send_fds(outside, [b"pid"], [pidfd])
    ready, _, _ = select.select([outside.fileno(), pidfd], [], [])
    if outside.fileno() in ready:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        outside.send(str(code).encode())
    os._exit(0)


def follow(inside: socket.socket) -> NoReturn:
    """Hand signals on to the command, and end as it does, or as killed when its host stops."""
    _, pidfds, _, _ = socket.recv_fds(inside, MESSAGE_BYTES, 1)
    for number in FORWARDED:
        signal.signal(number, lambda got, _: hand_on(got, pidfds))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    code = int(inside.recv(MESSAGE_BYTES) or -signal.SIGKILL)
    if code < 0:
        if -code in FORWARDED:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def hand_on(number: int, pidfds: list[int]) -> None:
    """Send a signal to the command, unless that has just ended."""
    for pidfd in pidfds:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, number)


def execute(command: list[str]) -> NoReturn:
    """Become the command."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"hosts: {command[0]} cannot be started: {error.strerror}.", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    if sys.argv[1] == "switch":
        switch(json.loads(sys.argv[2]))
    try:
        enter(int(sys.argv[2]), sys.argv[3] == "1", partial(execute, sys.argv[4:]))
    except Refused as refused:
        sys.exit("hosts: the host cannot be entered: {}: {}.".format(*refused.args))
