"""Several course servers on one PostgreSQL behind nginx, as processes that can be killed.

nginx is Debian's package. Where it is missing, clients go to the servers in turns.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from autograder.service.running.start import free_port

PROGRAM = [sys.executable, "-c", "from autograder.cli import main; raise SystemExit(main())"]

_NGINX = """
daemon off; pid nginx.pid; error_log error.log; worker_processes 1; {user}
events {{ worker_connections 2048; }}
http {{
  access_log off; client_max_body_size 17m; client_body_temp_path body; proxy_temp_path proxy;
  fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  upstream course {{ {servers} keepalive 64; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://course; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme; proxy_read_timeout 60s;
    }}
  }}
}}
"""


def program(words: list[str], log: IO[str]) -> "subprocess.Popen[str]":
    """Run `autograder` with these words."""
    return subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=log, text=True)


@dataclass
class Fleet:
    """`addresses` are where clients go: nginx's alone, or each server's."""

    folder: Path
    options: list[str]
    ports: list[int]
    program: Callable[[list[str], IO[str]], Any] = program
    addresses: list[str] = field(default_factory=list)
    processes: dict[int, Any] = field(default_factory=dict)
    starts: list[threading.Thread] = field(default_factory=list)

    def start(self, number: int) -> None:
        """Start a server, and return once it answers."""
        data = self.folder / f"server{number}"
        words = ["serve", "--port", str(self.ports[number]), "--data", str(data), *self.options]
        with (self.folder / f"server{number}.log").open("a") as log:
            process = self.program(words, log)
        self.processes[number] = process
        assert process.stdout
        said = next((line for line in process.stdout if "Course server" in line), None)
        assert said, f"server {number} ended: see {self.folder}"

    def kill(self, number: int) -> None:
        """Kill a server, as the system does when memory is short."""
        process = self.processes.pop(number)
        process.kill()
        process.communicate()

    def restart(self, number: int) -> None:
        """Kill a server, and have it start again meanwhile."""
        self.kill(number)
        self.starts.append(threading.Thread(target=self.start, args=(number,)))
        self.starts[-1].start()

    def end(self) -> None:
        """Kill every server, also those that are about to start."""
        for thread in self.starts:
            thread.join()
        for number in list(self.processes):
            self.kill(number)


@contextlib.contextmanager
def fleet(
    folder: Path,
    url: str,
    token: str,
    labs: Path,
    *,
    servers: int,
    nginx: bool,
    options: Sequence[str] = (),
    program: Callable[[list[str], IO[str]], Any] = program,
) -> Iterator[Fleet]:
    """Run `servers` servers of the database at `url`, whose instructor has `token`."""
    common = ["--database", url, "--labs", str(labs), "--of-one-address", "0"]
    ports = [free_port(0, 0) for _ in range(servers)]
    running = Fleet(folder, [*common, *options], ports, program)
    for number in range(servers):  # the file decides whose token it is
        data = folder / f"server{number}"
        data.mkdir()
        (data / "instructor.token").write_text(token)
    with contextlib.ExitStack() as stack:
        stack.callback(running.end)
        running.starts += [
            threading.Thread(target=running.start, args=(n,)) for n in range(servers)
        ]
        for thread in running.starts:
            thread.start()
        for thread in running.starts:
            thread.join()
        assert len(running.processes) == servers
        running.addresses = [f"http://127.0.0.1:{port}" for port in ports]
        if nginx:
            running.addresses = [stack.enter_context(_proxy(folder, ports))]
        yield running


@contextlib.contextmanager
def _proxy(folder: Path, ports: list[int]) -> Iterator[str]:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    port = free_port(0, 0)
    servers = " ".join(f"server 127.0.0.1:{p} max_fails=1 fail_timeout=2s;" for p in ports)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(_NGINX.format(servers=servers, port=port, user=user))
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        _listens(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> None:
    pause = threading.Event()
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        pause.wait(0.02)
    raise AssertionError(f"nginx does not listen on {port}")
