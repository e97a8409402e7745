"""The system calls that a learner's process may not make, as a BPF program.

A deny list: what NumPy, torch, threads, sockets and subprocesses need stays; what reaches into
other processes, makes namespaces, mounts, loads code into the kernel or holds memory that no limit
counts is refused with EPERM. `clone3` is ENOSYS, so that the C library falls back to `clone`,
whose flags a filter can read. Sockets are local or internet only: AF_VSOCK would reach out of a
virtual machine past the network namespace. Locks, leases and watches of files are refused because
the system's files are the same ones in every sandbox: a lock on one, or word that it was opened,
would pass from rank to rank past the judge, and from one submission to the next. SIGCONT is the
judge's alone: what it has stopped while a reference is timed must not wake itself.

Assembled by hand from struct seccomp_data and struct sock_filter (linux/seccomp.h, linux/filter.h),
which is less than a dependency would be. Imports nothing of ours.
"""

import errno
import platform
import signal
import struct

# call: (x86_64, aarch64); the numbers above 400 are the same everywhere
DENIED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "inotify_init": (253, 26),  # aarch64 has the second of the two only
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),  # a timed answer stays on the core it was put on
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "timer_create": (222, 107),  # its signal may be SIGCONT
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
CLONE, CLONE3, SOCKET = (56, 220), (435, 435), (41, 198)
FLOCK, FCNTL = (73, 32), (72, 25)
# F_[OFD_]GETLK, SETLK, SETLKW; F_SETLEASE, F_NOTIFY; F_SETSIG, by which data is SIGCONT
LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1026, 10)
# kill, tkill, rt_sigqueueinfo, pidfd_send_signal have the signal second; tgkill and
# rt_tgsigqueueinfo third.
SIGNALS_SECOND = ((62, 129), (200, 130), (129, 138), (424, 424))
SIGNALS_THIRD = ((234, 131), (297, 240))
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* that fits clone's flags
SOCKET_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK (interface lists)

# machine: (column of the tables above, its AUDIT_ARCH, first number of a second ABI or None)
MACHINES = {"x86_64": (0, 0xC000003E, 0x40000000), "aarch64": (1, 0xC00000B7, None)}

_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 16, 24, 32
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def program(machine: str = "") -> bytes | None:
    """Return the filter for `machine` (this one), or None where its numbers are not known."""
    if (machine or platform.machine()) not in MACHINES:
        return None
    column, arch, second_abi = MACHINES[machine or platform.machine()]
    deny, no_call = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [_step(_LOAD, _ARCH), _step(_EQUAL, arch, 1, 0), _step(_RETURN, _KILL)]
    code.append(_step(_LOAD, _NUMBER))
    if second_abi is not None:  # x32 would be a way around every number below
        code += _when(_AT_LEAST, second_abi, deny)
    for number in (CLONE3[column], FLOCK[column]):
        code += _when(_EQUAL, number, no_call)
    for numbers in DENIED.values():
        code += _when(_EQUAL, numbers[column], deny)
    families = [f for n in SOCKET_FAMILIES for f in _when(_EQUAL, n, _ALLOW)]
    code += _call(SOCKET[column], [*families, _step(_RETURN, deny)])
    code += _call(CLONE[column], _when(_ANY_BIT, NEW_NAMESPACES, deny))
    no_locks = _ERRNO | errno.ENOLCK
    locks = [step for command in LOCKS for step in _when(_EQUAL, command, no_locks)]
    code += _call(FCNTL[column], locks, argument=_SECOND_ARGUMENT)
    no_wake = _when(_EQUAL, signal.SIGCONT, deny)
    for numbers in SIGNALS_SECOND:
        code += _call(numbers[column], no_wake, argument=_SECOND_ARGUMENT)
    for numbers in SIGNALS_THIRD:
        code += _call(numbers[column], no_wake, argument=_THIRD_ARGUMENT)
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def _when(test: int, value: int, verdict: int) -> list[bytes]:
    return [_step(test, value, 0, 1), _step(_RETURN, verdict)]


def _call(number: int, steps: list[bytes], argument: int = _FIRST_ARGUMENT) -> list[bytes]:
    """Run these steps over one argument of call `number`; leave the number loaded."""
    steps = [_step(_LOAD, argument), *steps, _step(_LOAD, _NUMBER)]
    return [_step(_EQUAL, number, 0, len(steps)), *steps]
