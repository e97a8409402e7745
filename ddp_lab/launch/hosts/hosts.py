"""Hosts of a cluster on one machine, joined by a switch, with links as slow as wanted.

    with Hosts(2, rate="400mbit") as hosts:
        server = hosts.start(0, ["python", "server.py"])
        client = hosts.start(1, ["python", "client.py", hosts.addresses[0]])
        hosts.cut(1)

A host is a set of namespaces of the kernel's: it has a hostname, an address, processes, memory to
share and loopback of its own, and its files and its clock with everybody. Its only way out is a
link to a bridge, the switch, that no device outside belongs to. All links are full duplex and have
one rate. Root makes all this as root, anybody else inside a user namespace. Linux only; needs
Debian's iproute2.

May import: errors.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ddp_lab.errors import HostsRefused, InvalidArgument

INSIDE = [sys.executable, "-I", "-S", str(Path(__file__).with_name("namespaces.py"))]
MOST_HOSTS = 64
SWITCH = -1
PORT = 29500
MESSAGE_BYTES = 65_536
UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
# What a bucket lets through at once: at least 32 kB, which is 21 packets, and enough at any rate
# for the kernel's clock, which may fill it 2,000 times a second.
BURST_BYTES = 32_000
FILLS_A_SECOND = 2_000
# the settings that refuse user namespaces, and the value at which they do
REFUSING = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "10000"),
}


class Hosts:
    """Some hosts, from 0 on; also a context manager, which closes them.

    Whatever runs on them ends when they are closed, and when this process ends, however it does.

    Attributes:
        names: `("host1", "host2", ...)`, which resolve on all hosts.
        addresses: `("10.9.0.1", ...)`.
        has_latency: whether links have the latency asked for; False where the kernel has no netem.
    Args:
        count: how many.
        rate: what each link carries in each direction, such as `"400mbit"`; None for no limit.
        latency: how long each message takes from host to host besides, such as `"1ms"`.
    Raises:
        InvalidArgument: a number of hosts, a rate or a latency that makes no sense.
        HostsRefused: this machine cannot, and what would make it.
    """

    def __init__(self, count: int, *, rate: str | None = None, latency: str | None = None) -> None:
        if not 0 < count <= MOST_HOSTS:
            raise InvalidArgument(
                f"hosts: the number of hosts is wrong: got {count}, expected 1 to {MOST_HOSTS}."
            )
        self.names = tuple(f"host{host + 1}" for host in range(count))
        self.addresses = tuple(f"10.9.0.{host + 1}" for host in range(count))
        order = {
            "hosts": count,
            "bucket": _bucket(rate) if rate else "",
            "delay": _delay(latency) if latency else "",
            "ip": find_tool("ip"),
            "tc": find_tool("tc"),
        }
        self._started: list[subprocess.Popen[Any]] = []
        self._pidfds: list[int] = []
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._switch = self._start_switch(order, theirs)
        try:
            self._is_mine, self.has_latency = self._hear_of_hosts()
        except BaseException:
            self.close()
            raise

    def _start_switch(
        self, order: dict[str, Any], control: socket.socket
    ) -> "subprocess.Popen[bytes]":
        tool = os.pidfd_open(os.getpid())
        try:
            words = json.dumps({**order, "control": control.fileno(), "tool": tool})
            return subprocess.Popen(
                [*INSIDE, "switch", words],
                pass_fds=[control.fileno(), tool],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is the caller's to handle
            )
        finally:
            os.close(tool)

    def _hear_of_hosts(self) -> tuple[bool, bool]:
        data, self._pidfds, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, MOST_HOSTS + 1)
        answer = json.loads(data or '{"step": "switch", "reason": "it ended"}')
        if "step" in answer:
            raise HostsRefused(refusal(**answer))
        return answer["is_mine"], answer["has_netem"]

    def environment(self, host: int) -> dict[str, str]:
        """Return the variables by which programs of a host find the others, as torch names them."""
        return {
            "MASTER_ADDR": self.addresses[0],
            "MASTER_PORT": str(PORT),
            "NNODES": str(len(self.names)),
            "NODE_RANK": str(host),
            "GLOO_SOCKET_IFNAME": "eth0",
        }

    def start(
        self,
        host: int,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> "subprocess.Popen[Any]":
        """Return a command that runs on a host, or at the SWITCH.

        It has this process's environment, that of the host, and `environment`. It gets the signals
        that the `Popen` is sent, and ends with the same status. Its children it leaves behind, as
        on any machine.

        Args:
            options: those of `Popen`.
        """
        pidfd = self._pidfds[host]
        own = self.environment(host) if host != SWITCH else {}
        process = subprocess.Popen(
            [*INSIDE, "enter", str(pidfd), str(int(self._is_mine)), *command],
            env={**os.environ, **own, **(environment or {})},
            pass_fds=[pidfd, *options.pop("pass_fds", ())],
            start_new_session=True,
            **{"stdin": subprocess.DEVNULL, **options},
        )
        self._started.append(process)
        return process

    def cut(self, host: int) -> None:
        """Pull a host's cable: what is sent is lost, and nobody is told."""
        self._plug(host, "down")

    def join(self, host: int) -> None:
        """Plug a host's cable in again."""
        self._plug(host, "up")

    def _plug(self, host: int, state: str) -> None:
        self._control.send(f"link set {self.names[host]} {state}".encode())
        answer = json.loads(self._control.recv(MESSAGE_BYTES))
        if "step" in answer:
            raise HostsRefused(refusal(**answer))

    def stop(self, host: int) -> None:
        """Switch a host off: its cable is pulled, then all its processes are killed."""
        self.cut(host)
        signal.pidfd_send_signal(self._pidfds[host], signal.SIGKILL)

    def close(self) -> None:
        """End the hosts and everything on them."""
        self._control.close()
        self._switch.wait()  # its process 1 has ended, and so has all that it held
        for process in self._started:
            process.wait()
        while self._pidfds:
            os.close(self._pidfds.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _bucket(rate: str) -> str:
    """Return a rate as options of tc's token bucket."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)bit", rate.lower())
    bits = float(match[1]) * UNITS[match[2]] if match else 0.0
    if bits < 1:
        raise InvalidArgument(
            f"hosts: this is no rate: got {rate!r}, expected a number and bit, kbit, mbit or gbit, "
            "such as 400mbit."
        )
    burst = max(BURST_BYTES, int(bits / 8 / FILLS_A_SECOND))
    return f"rate {int(bits)}bit burst {burst}b latency 50ms"


def _delay(latency: str) -> str:
    """Return a latency as options of netem, which holds back at most `limit` packets."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", latency.lower())
    if not match:
        raise InvalidArgument(
            f"hosts: this is no latency: got {latency!r}, expected a number and us, ms or s, such "
            "as 1ms."
        )
    return f"delay {int(float(match[1]) * SECONDS[match[2]] * 1e6)}us limit 100000"


def find_tool(name: str) -> str:
    """Return where `ip` or `tc` is, also for a user whose PATH leaves it out.

    Raises:
        HostsRefused: it is nowhere, or this is not Linux.
    """
    if sys.platform != "linux":
        raise HostsRefused(f"hosts: only Linux has them: got {sys.platform}. Use a Linux machine.")
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    if (place := shutil.which(name, path=path)) is None:
        raise HostsRefused(
            f"hosts: {name} is not installed: sudo apt-get install iproute2. "
            "Help: when_it_does_not_work.html#hosts-cannot-be-made",
            is_missing=True,
        )
    return place


def refusal(step: str, reason: str) -> str:
    """Return the line for a user of what this machine did not allow, and what would."""
    if "qdisc kind is unknown" in reason:
        return (
            "hosts: this kernel has no token bucket, which limits a link's rate: sudo modprobe "
            "sch_tbf, or leave the rate out."
        )
    if "Unknown device type" in reason:
        return "hosts: this kernel has no bridges or no veth: sudo modprobe bridge veth"
    for name, (value, better) in REFUSING.items():
        file = Path("/proc/sys", name.replace(".", "/"))
        if os.geteuid() and file.is_file() and file.read_text().strip() == value:
            allow = f"sudo sysctl {name}={better}, or run this as root"
            return (
                f"hosts: this machine refuses its users namespaces ({step}: {reason}): {allow}. "
                "Help: when_it_does_not_work.html#hosts-cannot-be-made"
            )
    return (
        f"hosts: this machine refuses namespaces ({step}: {reason}): run this as root; in a "
        "container, start that with --privileged. "
        "Help: when_it_does_not_work.html#hosts-cannot-be-made"
    )
