"""Outside the wall: the command lines that start a worker or a zygote, and what they may see.

Three walls, the best that this machine has:

    bubblewrap  its own files, processes, network and user; nothing of this machine's but a
                read-only interpreter and its packages
    unshare     its own processes and network, but it sees the caller's files: unsandboxed
    limits      resource limits only: unsandboxed

As root the process gets another user first, for the kernel excuses root from the limit on
processes. A checkout or an interpreter that only root can read is bound to where that user can
reach it, in a mount namespace of its own (`PORCH`).
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from autograder.errors import SandboxMissing
from autograder.sandbox import seccomp
from autograder.sandbox.layout import Layout

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
PORCHES = ("/mnt", "/media", "/srv")
# $1 the user, $2 the porch, then sources up to --, then the command.
PORCH = """set -e; user=$1; porch=$2; shift 2
mount -t tmpfs -o mode=755 porch "$porch"
n=0
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mkdir "$porch/$n"; else : > "$porch/$n"; fi
    mount --bind "$1" "$porch/$n"
    n=$((n + 1)); shift
done
shift
exec setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"
"""


def start(
    wall: str,
    role: str,
    layout: Layout,
    connection_fd: int,
    output_fd: int,
    *,
    file_bytes: int,
    user: int,
    info_fd: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start the worker or zygote (`role`) behind `wall`; it inherits these descriptors alone.

    `user` is whom the process runs as when the caller is root.

    Raises:
        SandboxMissing: the wall's command is not installed, or root alone could run the rest.
    """
    arguments = ["-I", "-S", "-B", "-c", START.format(role), str(connection_fd)]
    passed = [connection_fd, *([] if info_fd is None else [info_fd])]
    drop = user if os.geteuid() == 0 else None
    if wall != "bubblewrap":
        command = [*_unshare(wall), layout.python, *arguments, *_open_path(layout)]
        if drop is not None and not _reachable(layout.python):
            raise SandboxMissing(
                f"sandbox: {layout.python} can be read by root alone. "
                "Install bubblewrap, or run as an ordinary user."
            )
        return _spawn(command, passed, output_fd, drop, ENVIRONMENT)
    command = [_tool("bwrap"), "--args"]
    moved = _unreachable(layout) if drop is not None else []
    porch = _porch(layout)
    sources = {source: f"{porch}/{n}" for n, source in enumerate(moved)}
    own_files, options = _own_files(user if drop is not None else os.getuid())
    options += _view(layout, sources, file_bytes, nested=role == "zygote")
    if info_fd is not None:
        options += ["--info-fd", str(info_fd)]
    if role != "zygote" and (program := seccomp.program()) is not None:
        own_files.append(_file(program))
        options += ["--seccomp", str(own_files[-1])]
    own_files.append(_file(b"".join(os.fsencode(o) + b"\0" for o in options)))
    command += [str(own_files[-1]), "--", layout.python, *arguments, *layout.path]
    if moved:
        script = [_tool("sh"), "-c", PORCH, "sh", str(user), porch, *moved, "--"]
        command = [_tool("unshare"), "--mount", "--propagation", "private", *script, *command]
        drop = None
    try:
        return _spawn(command, [*passed, *own_files], output_fd, drop, {})
    finally:
        for descriptor in own_files:
            os.close(descriptor)


def user_for(number: int) -> int:
    """Return a user for the `number`-th sandbox of this process, other than its neighbours'."""
    return FIRST_USER + (os.getpid() * 61 + number) % USERS


def _spawn(
    command: Sequence[str],
    descriptors: Iterable[int],
    output_fd: int,
    user: int | None,
    environment: dict[str, str],
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=output_fd,
        stderr=output_fd,
        pass_fds=tuple(descriptors),
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        start_new_session=True,
    )


def _own_files(user: int) -> tuple[list[int], list[str]]:
    """Return descriptors and options for the few files of /etc that libraries ask for."""
    contents = {
        "/etc/passwd": f"learner:x:{user}:{user}::/tmp:/bin/sh\n",
        "/etc/group": f"learner:x:{user}:\n",
        "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    descriptors = [_file(text.encode()) for text in contents.values()]
    options = []
    for descriptor, path in zip(descriptors, contents, strict=True):
        options += ["--ro-bind-data", str(descriptor), path]
    return descriptors, options


def _view(layout: Layout, moved: dict[str, str], file_bytes: int, *, nested: bool) -> list[str]:
    """Return bubblewrap's options: no network, no capability, read-only files, sized scratch."""
    size = str(file_bytes)
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    options += ["--cap-drop", "ALL", "--hostname", "sandbox", "--chdir", "/tmp"]
    # A zygote makes one more user namespace for each worker, and forbids them there itself.
    options += [] if nested else ["--disable-userns"]
    options += ["--ro-bind", "/usr", "/usr"]
    for folder in ("/lib", "/lib64", "/bin", "/sbin"):
        if Path(folder).is_symlink():
            options += ["--symlink", str(Path(folder).readlink()), folder]
        else:
            options += ["--ro-bind-try", folder, folder]
    for library in ("/etc/ld.so.cache", "/etc/alternatives"):
        options += ["--ro-bind-try", library, library]
    options += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"]
    # One set of terminals would be shared by all workers of a zygote: there are none.
    options += ["--size", "4096", "--tmpfs", "/dev/pts", "--remount-ro", "/dev/pts"]
    options += ["--remount-ro", "/dev", "--size", size, "--tmpfs", "/tmp"]
    covered = [inside for outside, inside in layout.mounts if outside is None]
    for outside, inside in layout.mounts:
        if outside is None:
            options += ["--size", "4096", "--tmpfs", inside]
        else:
            options += ["--ro-bind", moved.get(outside, outside), inside]
    for folder in (*covered, "/"):
        options += ["--remount-ro", folder]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    return options


def _unshare(wall: str) -> list[str]:
    if wall == "limits":
        return []
    options = ["--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--ipc", "--uts"]
    return [_tool("unshare"), "--user", "--map-current-user", *options, "--"]


def _open_path(layout: Layout) -> list[str]:
    """Return `sys.path` for a wall that leaves files where they are."""
    folders = [str(Path(outside).parent) for outside, _ in layout.mounts if outside is not None]
    ours = str(Path(__file__).resolve().parent.parent.parent)
    inside = {i: o for o, i in layout.mounts if o is not None}
    sites = [p for p in layout.path if p in folders or p in inside or p.startswith("/usr")]
    return [ours, *sites]


def _unreachable(layout: Layout) -> list[str]:
    """Return the folders and files to be seen that only root can reach."""
    sources = [outside for outside, _ in layout.mounts if outside is not None]
    return [source for source in sources if not _reachable(source)]


def _reachable(path: str) -> bool:
    """Return whether anyone may read `path`, by its mode and those of the folders above it."""
    leaf = Path(path)
    above = all(parent.stat().st_mode & 0o001 for parent in leaf.parents)
    return above and bool(leaf.stat().st_mode & 0o004)


def _porch(layout: Layout) -> str:
    """Return an empty place to mount over that hides nothing of what is to be seen."""
    used = [outside for outside, _ in layout.mounts if outside is not None]
    free = [p for p in PORCHES if Path(p).is_dir() and not any(u.startswith(p) for u in used)]
    return free[0] if free else "/mnt"


def _tool(name: str) -> str:
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin")
    if path is None:
        raise SandboxMissing(f"sandbox: {name} is not installed. Run: autograder doctor")
    return path


def _file(content: bytes) -> int:
    """Return a descriptor of an unnamed file with this content, at its beginning."""
    descriptor = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
