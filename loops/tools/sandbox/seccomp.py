"""A seccomp filter as plain BPF bytes: kernel doors that no build or test needs (SPEC I7).

Everything else stays allowed: a filter that breaks compilers would be switched off by the first user. Where no
namespaces stand around a command, a stricter one closes what they would have closed.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_ASK = 0x7FC00000
_KILL = 0x80000000
_REFUSE = 0x00050000 | errno.EPERM
_MISSING = 0x00050000 | errno.ENOSYS
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_NO_ROOM = 0x00050000 | errno.ENOSPC
_NOT_FOR_THESE = 0x00050000 | errno.EINVAL
_NO_OPTION = 0x00050000 | errno.ENOPROTOOPT
_IGNORE = 0x00050000
"""Nothing is done, and the caller hears that it was."""
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24
_NEW_NAMESPACES = 0x7E020080  # NEWUSER, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP, NEWNS, NEWTIME
_FAMILIES = (1, 2, 10)  # UNIX, INET, INET6: they reach nothing outside the own network namespace
_X32 = 0x40000000
_CLONE3 = 435

_COMMON = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
_COMMON |= {"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433}
_COMMON |= {"mount_setattr": 442, "quotactl_fd": 443}

_X86_64 = {"ptrace": 101, "syslog": 103, "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163}
_X86_64 |= {"settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169}
_X86_64 |= {"sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175}
_X86_64 |= {"delete_module": 176, "quotactl": 179, "clock_settime": 227, "kexec_load": 246, "add_key": 248}
_X86_64 |= {"request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "fanotify_init": 300}
_X86_64 |= {"name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308}
_X86_64 |= {"process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313}
_X86_64 |= {"kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "vhangup": 153, "modify_ldt": 154}

_AARCH64 = {"umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60, "acct": 89}
_AARCH64 |= {"unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112}
_AARCH64 |= {"syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162}
_AARCH64 |= {"settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219}
_AARCH64 |= {"swapon": 224, "swapoff": 225, "perf_event_open": 241, "fanotify_init": 262}
_AARCH64 |= {"name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268}
_AARCH64 |= {"process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280}
_AARCH64 |= {"userfaultfd": 282, "kexec_file_load": 294}

# Memory that belongs to no process and no folder is seen by nobody who counts: a file without a name is refused as by a
# kernel that does not know it, and of the kernel's own queues and segments there are few, and small ones.
_UNSEEN = {
    "x86_64": {"memfd_create": 319, "memfd_secret": 447, "msgget": 68, "vmsplice": 278},
    "aarch64": {"memfd_create": 279, "memfd_secret": 447, "msgget": 186, "vmsplice": 75},
}
_AT_MOST = {
    "x86_64": ((29, 16_384), (64, 32)),
    "aarch64": ((194, 16_384), (190, 32)),
}
"""Numbers of shmget and semget, and the most that their second argument may be: bytes, and semaphores in one set."""

# A page of a file that a pipe or a socket refers to stays until somebody reads it, with the two megabytes it may be
# a part of, though the file is empty and gone by then. Who hears that these two files will not do, as it is with many,
# reads and writes instead: all ordinary programs.
_BY_REFERENCE = {"x86_64": {"splice": 275, "sendfile": 40}, "aarch64": {"splice": 76, "sendfile": 71}}

_FCNTL = {"x86_64": 72, "aarch64": 25}
_LARGER_PIPE = 1031
_SETSOCKOPT = {"x86_64": 54, "aarch64": 208}
_OF_ANY_SOCKET = 1
_SEND_BUFFER, _RECEIVE_BUFFER, _WITHOUT_COPIES = 7, 8, 60

# Without namespaces the kernel's message queues and shared memory are the host's, a socket reaches it, an observer sees
# names in its folders, and what belongs to a file besides its bytes is guarded by its owner alone.
_ALONE = {"pidfd_getfd": 438, "process_madvise": 440, "process_mrelease": 448, "setxattrat": 463, "removexattrat": 466}
_ALONE |= {"file_setattr": 469}

_ALONE_X86_64 = {"shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "semop": 65, "semctl": 66, "msgget": 68}
_ALONE_X86_64 |= {"msgsnd": 69, "msgrcv": 70, "msgctl": 71, "semtimedop": 220, "mq_open": 240, "mq_unlink": 241}
_ALONE_X86_64 |= {"chown": 92, "lchown": 94, "fchownat": 260, "setxattr": 188, "lsetxattr": 189, "removexattr": 197}
_ALONE_X86_64 |= {"lremovexattr": 198, "inotify_add_watch": 254, "ioprio_set": 251, "migrate_pages": 256}
_ALONE_X86_64 |= {"move_pages": 279, "futimesat": 261}

_ALONE_AARCH64 = {"setxattr": 5, "lsetxattr": 6, "removexattr": 14, "lremovexattr": 15, "inotify_add_watch": 27}
_ALONE_AARCH64 |= {"ioprio_set": 30, "fchownat": 54, "mq_open": 180, "mq_unlink": 181, "msgget": 186, "msgctl": 187}
_ALONE_AARCH64 |= {"msgrcv": 188, "msgsnd": 189, "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193}
_ALONE_AARCH64 |= {"shmget": 194, "shmctl": 195, "shmat": 196, "migrate_pages": 238, "move_pages": 239}

_ONESELF = {
    "x86_64": {
        "prlimit64": (302, 0),
        "sched_setparam": (142, 0),
        "sched_setscheduler": (144, 0),
        "sched_setaffinity": (203, 0),
        "sched_setattr": (314, 0),
    },
    "aarch64": {
        "prlimit64": (261, 0),
        "sched_setparam": (118, 0),
        "sched_setscheduler": (119, 0),
        "sched_setaffinity": (122, 0),
        "sched_setattr": (274, 0),
    },
}
"""Number, and which argument names the process: 0 there is the caller, anything else could be a stranger."""
_SETPRIORITY = {"x86_64": 141, "aarch64": 140}

CONNECT = {"x86_64": 42, "aarch64": 203}
"""Asked about where there are no namespaces: no rule of Landlock's says which socket a path may lead to."""
_SERVES = {"x86_64": {"bind": 49, "listen": 50}, "aarch64": {"bind": 200, "listen": 201}}
_STREAMS = (0x1, 0x801, 0x80001, 0x80801)
"""SOCK_STREAM, with and without SOCK_NONBLOCK and SOCK_CLOEXEC: it sends nothing to where it is not connected."""
_LOCAL = 1

METADATA = {
    "x86_64": {90: "chmod", 268: "fchmodat", 452: "fchmodat2", 132: "utime", 235: "utimes", 280: "utimensat"},
    "aarch64": {53: "fchmodat", 452: "fchmodat2", 88: "utimensat"},
}
"""Changes of a file's mode and times by its path, which Landlock does not see: metadata.py makes them."""

_MACHINES = {
    "x86_64": (0xC000003E, _X86_64 | _COMMON, 56, 41),
    "aarch64": (0xC00000B7, _AARCH64 | _COMMON, 220, 198),
}
"""Audit architecture, refused calls, number of clone, number of socket."""


def filter_bytes(machine: str = "") -> bytes:
    """The filter for this machine, b"" for an architecture without a table (then no filter is loaded, and capability.py
    says so). Argument 0 is compared by its low 32 bits, which is all the kernel reads for clone flags and families.
    """
    return _program(machine or platform.machine(), {}, [], _FAMILIES)


def alone_bytes(machine: str = "") -> bytes:
    """The filter for a command without namespaces around it, b"" as above. It has no sockets but pairs and local ones
    that serve nobody; a supervisor is asked where these connect, and about ``METADATA``."""
    name = machine or platform.machine()
    if name not in _MACHINES:
        return b""
    more = _ALONE | _SERVES[name] | (_ALONE_X86_64 if name == "x86_64" else _ALONE_AARCH64)
    program: list[bytes] = []
    for number, argument in _ONESELF[name].values():
        program += _only(number, (argument,))
    program += _only(_SETPRIORITY[name], (0, 1))
    for number, call in METADATA[name].items():
        program += _asked(number, call == "utimensat")
    program += _asked(CONNECT[name], False)
    for kind in _STREAMS:
        program += _answered(_MACHINES[name][3], {0: _LOCAL, 1: kind}, _ALLOW)
    return _program(name, more, program, ())


def _only(number: int, arguments: tuple[int, ...]) -> list[bytes]:
    """Allow the call where each of these arguments is 0, refuse it else; the accumulator holds the number again."""
    checks = [
        step
        for argument in arguments
        for step in (_step(_LOAD, _ARGUMENT_0 + 8 * argument), _step(_JUMP_EQUAL, 0, 1, 0), _step(_RETURN, _REFUSE))
    ]
    return [_step(_JUMP_EQUAL, number, 0, len(checks) + 1), *checks, _step(_RETURN, _ALLOW)]


def _small(number: int, most: int) -> list[bytes]:
    """Allow the call where its second argument is ``most`` or less, else there is no room for it."""
    return [
        _step(_JUMP_EQUAL, number, 0, 6),
        _step(_LOAD, _ARGUMENT_1 + 4),
        _step(_JUMP_EQUAL, 0, 0, 3),
        _step(_LOAD, _ARGUMENT_1),
        _step(_JUMP_AT_LEAST, most + 1, 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _NO_ROOM),
    ]


def _sized(machine: str) -> list[bytes]:
    """A pipe and a socket hold what the kernel gives by itself, so that they can be counted. How much a larger buffer
    is was always the kernel's to say; a socket that sends without copies holds pages as a pipe does by reference."""
    sockets = _SETSOCKOPT[machine]
    return [
        *_answered(_FCNTL[machine], {1: _LARGER_PIPE}, _REFUSE),
        *_answered(sockets, {1: _OF_ANY_SOCKET, 2: _SEND_BUFFER}, _IGNORE),
        *_answered(sockets, {1: _OF_ANY_SOCKET, 2: _RECEIVE_BUFFER}, _IGNORE),
        *_answered(sockets, {1: _OF_ANY_SOCKET, 2: _WITHOUT_COPIES}, _NO_OPTION),
    ]


def _answered(number: int, arguments: Mapping[int, int], answer: int) -> list[bytes]:
    """Answer the call where all these arguments are so; the accumulator holds the number again for what follows. Only
    for arguments of which the kernel reads the low 32 bits."""
    length = 2 * len(arguments) + 2
    program = [_step(_JUMP_EQUAL, number, 0, length)]
    for at, (argument, value) in enumerate(arguments.items()):
        program += [
            _step(_LOAD, _ARGUMENT_0 + 8 * argument),
            _step(_JUMP_EQUAL, value, 0, length - 2 * at - 3),
        ]
    return [*program, _step(_RETURN, answer), _step(_LOAD, _NUMBER)]


def _asked(number: int, may_have_no_path: bool) -> list[bytes]:
    """Ask the supervisor. Times without a path are those of an open file, which Landlock did see."""
    if not may_have_no_path:
        return [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _ASK)]
    return [
        _step(_JUMP_EQUAL, number, 0, 6),
        _step(_LOAD, _ARGUMENT_1),
        _step(_JUMP_EQUAL, 0, 0, 3),
        _step(_LOAD, _ARGUMENT_1 + 4),
        _step(_JUMP_EQUAL, 0, 0, 1),
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _ASK),
    ]


def _program(machine: str, more: dict[str, int], special: list[bytes], families: tuple[int, ...]) -> bytes:
    known = _MACHINES.get(machine)
    if known is None:
        return b""
    architecture, refused, clone, socket = known
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_JUMP_EQUAL, architecture, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_JUMP_AT_LEAST, _X32, 0, 1),
        _step(_RETURN, _REFUSE),
        _step(_JUMP_EQUAL, _CLONE3, 0, 1),
        _step(_RETURN, _MISSING),  # its flags are behind a pointer; libraries fall back to clone
    ]
    for number in sorted({*refused.values(), *more.values()}):
        program += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _REFUSE)]
    for number in sorted(_UNSEEN[machine].values()):
        program += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _MISSING)]
    for number in sorted(_BY_REFERENCE[machine].values()):
        program += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _NOT_FOR_THESE)]
    for number, most in _AT_MOST[machine]:
        program += _small(number, most)
    program += _sized(machine)
    program += special
    program += [
        _step(_JUMP_EQUAL, clone, 0, 4),
        _step(_LOAD, _ARGUMENT_0),
        _step(_JUMP_ANY_BIT, _NEW_NAMESPACES & ~0x80, 0, 1),  # 0x80 (NEWTIME) is a signal bit in clone
        _step(_RETURN, _REFUSE),
        _step(_RETURN, _ALLOW),
        _step(_JUMP_EQUAL, socket, 0, len(families) + 2),
        _step(_LOAD, _ARGUMENT_0),
        *(_step(_JUMP_EQUAL, family, len(families) - at, 0) for at, family in enumerate(families)),
        _step(_RETURN, _NO_FAMILY),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
