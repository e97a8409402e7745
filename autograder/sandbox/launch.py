"""Outside the wall: the command lines that start a worker or a zygote, and what they may see.

Three walls, the best that this machine has:

    bubblewrap  its own files, processes, network and user; nothing of this machine's but a
                read-only interpreter and its packages
    unshare     its own processes and network, but it sees the caller's files: unsandboxed
    limits      resource limits only: unsandboxed

As root the process gets another user first, for the kernel excuses root from the limit on
processes. A checkout or an interpreter that only root can read is bound to where that user can
reach it, in a mount namespace of its own (`MOUNT_SOURCES`).
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import SandboxMissing
from autograder.sandbox import seccomp
from autograder.sandbox.layout import Layout, original

WALLS = ("bubblewrap", "unshare", "limits")
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    "GLOO_SOCKET_IFNAME": "lo",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
START = "import sys; sys.path += sys.argv[2:]; from autograder.sandbox.{0} import main; main()"
# Users that no package and no person has (systemd gives this range to nobody for long).
FIRST_USER, USERS = 61184, 4336
NO_ROOM = "4096"  # bytes: the least that a temporary file system can have
MOUNT_POINTS = ("/mnt", "/media", "/srv")
# $1 the user, $2 the mount point, then sources up to --, then the command.
MOUNT_SOURCES = """set -e; user=$1; mount_point=$2; shift 2
mount -t tmpfs -o mode=755 tmpfs "$mount_point"
n=0
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir "$mount_point/$n"; else : > "$mount_point/$n"; fi
    mount --bind "$1" "$mount_point/$n"
    n=$((n + 1)); shift
done
shift
exec setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"
"""


@dataclass(frozen=True)
class Order:
    """What to start: a "worker" or a "zygote" (`role`), behind which wall, with which descriptors.

    `user` is whom it runs as when the caller is root. bubblewrap writes the pid of its pid 1 to
    `info_fd`, where there is one.
    """

    wall: str
    role: str
    layout: Layout
    connection_fd: int
    output_fd: int
    file_bytes: int
    user: int
    info_fd: int | None = None

    @property
    def drops(self) -> bool:
        """Whether the process has to become another user first."""
        return os.geteuid() == 0

    def options(self, path: Iterable[str]) -> list[str]:
        """Return the interpreter's options: no environment, no site, nothing written."""
        start = START.format(self.role)
        return ["-I", "-S", "-B", "-c", start, str(self.connection_fd), *path]


def start(order: Order) -> "subprocess.Popen[bytes]":
    """Start a process that inherits the order's descriptors and nothing else.

    Raises:
        SandboxMissing: a command is not installed, or what has to run can be read by root alone.
    """
    if order.wall == "bubblewrap":
        return _start_bubblewrap(order)
    python = original(order.layout.python)
    if order.drops and not reachable(python):
        problem = f"sandbox: {python} can be read by root alone"
        raise SandboxMissing(f"{problem}. Install bubblewrap, or run as an ordinary user.")
    command = [*_unshare(order.wall), python, *order.options(_open_path(order.layout))]
    return _spawn(order, command, [], order.user if order.drops else None, ENVIRONMENT)


def _start_bubblewrap(order: Order) -> "subprocess.Popen[bytes]":
    moved = unreachable(order.layout) if order.drops else []
    for source in moved:
        check_mode(Path(source))
    mount_point = _empty_mount_point(order.layout)
    files: list[int] = []
    try:
        options = _own_files(order.user if order.drops else os.getuid(), files)
        options += _view(order, {source: f"{mount_point}/{n}" for n, source in enumerate(moved)})
        options += _filter(order, files)
        files.append(_file(b"".join(os.fsencode(o) + b"\0" for o in options)))
        inner = [order.layout.python, *order.options(order.layout.path)]
        command = [_tool("bwrap"), "--args", str(files[-1]), "--", *inner]
        if not moved:
            return _spawn(order, command, files, order.user if order.drops else None, {})
        script = [
            _tool("sh"),
            "-c",
            MOUNT_SOURCES,
            "sh",
            str(order.user),
            mount_point,
            *moved,
            "--",
        ]
        outer = [_tool("unshare"), "--mount", "--propagation", "private"]
        return _spawn(order, [*outer, *script, *command], files, None, {})
    finally:
        for descriptor in files:
            os.close(descriptor)


def _filter(order: Order, files: list[int]) -> list[str]:
    """Return the options for the system-call filter; a zygote's workers put it on themselves."""
    program = seccomp.program()
    if order.role == "zygote" or program is None:
        return []
    files.append(_file(program))
    return ["--seccomp", str(files[-1])]


def user_for(number: int) -> int:
    """Return a user for the `number`-th sandbox of this process, other than its neighbours'."""
    return FIRST_USER + (os.getpid() * 61 + number) % USERS


def _spawn(
    order: Order,
    command: Sequence[str],
    files: Iterable[int],
    user: int | None,
    environment: dict[str, str],
) -> "subprocess.Popen[bytes]":
    info = [] if order.info_fd is None else [order.info_fd]
    return subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=order.output_fd,
        stderr=order.output_fd,
        pass_fds=(order.connection_fd, *info, *files),
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        start_new_session=True,
    )


def _own_files(user: int, files: list[int]) -> list[str]:
    """Return the options for the few files of /etc that libraries ask for; add to `files`."""
    contents = {
        "/etc/passwd": f"learner:x:{user}:{user}::/tmp:/bin/sh\n",
        "/etc/group": f"learner:x:{user}:\n",
        "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    options = []
    for path, text in contents.items():
        files.append(_file(text.encode()))
        options += ["--ro-bind-data", str(files[-1]), path]
    return options


def _view(order: Order, moved: dict[str, str]) -> list[str]:
    """Return bubblewrap's options: no network, no capability, read-only files, sized scratch."""
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    options += ["--cap-drop", "ALL", "--hostname", "sandbox", "--chdir", "/tmp"]
    # A zygote makes one more user namespace for each worker, and forbids them there itself.
    # A worker is pid 1 itself: bubblewrap's own could be written to by the learner's code.
    options += [] if order.role == "zygote" else ["--disable-userns", "--as-pid-1"]
    options += [] if order.info_fd is None else ["--info-fd", str(order.info_fd)]
    options += [*_system(), *_scratch(order.file_bytes)]
    covered = [inside for outside, inside in order.layout.mounts if outside is None]
    for outside, inside in order.layout.mounts:
        if outside is None:
            options += ["--size", NO_ROOM, "--tmpfs", inside]
        else:
            options += ["--ro-bind", moved.get(outside, outside), inside]
    for folder in (*covered, "/"):
        options += ["--remount-ro", folder]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    return options


def _system() -> list[str]:
    options = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/lib", "/lib64", "/bin", "/sbin"):
        if Path(folder).is_symlink():
            options += ["--symlink", str(Path(folder).readlink()), folder]
        else:
            options += ["--ro-bind-try", folder, folder]
    for library in ("/etc/ld.so.cache", "/etc/alternatives"):
        options += ["--ro-bind-try", library, library]
    return options


def _scratch(file_bytes: int) -> list[str]:
    """Return the options for what can be written, each of bounded size, and /dev and /proc."""
    size = str(file_bytes)
    options = ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"]
    # One set of terminals would be shared by all workers of a zygote: there are none.
    options += ["--size", NO_ROOM, "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    return [*options, "--remount-ro", "/dev", "--size", size, "--tmpfs", "/tmp"]


def _unshare(wall: str) -> list[str]:
    if wall == "limits":
        return []
    options = ["--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts"]
    return [_tool("unshare"), "--user", "--map-current-user", *options, "--"]


def _open_path(layout: Layout) -> list[str]:
    """Return `sys.path` for a wall that leaves files where they are."""
    ours = str(Path(__file__).resolve().parent.parent.parent)
    seen = {outside for outside, _ in layout.mounts if outside is not None}
    seen |= {str(Path(outside).parent) for outside in seen}
    sites = [original(p) for p in layout.path]
    return [ours, *(p for p in sites if p in seen or p.startswith("/usr"))]


def unreachable(layout: Layout) -> list[str]:
    """Return the folders and files to be seen that only root can reach."""
    sources = [outside for outside, _ in layout.mounts if outside is not None]
    return [source for source in sources if not reachable(source)]


def reachable(path: str) -> bool:
    """Return whether anyone may read `path`, by its mode and those of the folders above it."""
    leaf = Path(path)
    try:
        above = all(parent.stat().st_mode & 0o001 for parent in leaf.parents)
        return above and bool(leaf.stat().st_mode & 0o004)
    except FileNotFoundError:  # for bubblewrap to name
        return True


def check_mode(source: Path) -> None:
    """Raise `SandboxMissing` if `source` itself, and not only its place, is closed to others."""
    for path in (source, source / "__init__.py"):
        readable = 0o005 if path.is_dir() else 0o004
        if path.exists() and path.stat().st_mode & readable != readable:
            problem = f"sandbox: {path} can be read by root alone, and submissions run as others"
            raise SandboxMissing(f"{problem}. Run: chmod -R o+rX {source}")


def _empty_mount_point(layout: Layout) -> str:
    """Return an empty place to mount over that hides nothing of what is to be seen."""
    used = [outside for outside, _ in layout.mounts if outside is not None]
    free = [p for p in MOUNT_POINTS if Path(p).is_dir() and not any(u.startswith(p) for u in used)]
    return free[0] if free else "/mnt"


def _tool(name: str) -> str:
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin")
    if path is None:
        raise SandboxMissing(
            f"sandbox: {name} is not installed. Run: autograder doctor. "
            "Help: when_it_does_not_work.html#no-sandbox"
        )
    return path


def _file(content: bytes) -> int:
    """Return a descriptor of an unnamed file with this content, at its beginning."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
