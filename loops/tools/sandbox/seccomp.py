"""A seccomp filter as plain BPF bytes for ``bwrap --seccomp FD``: kernel doors that no build or test needs (SPEC I7).

Everything else stays allowed: a filter that breaks compilers would be switched off by the first user.
"""

from __future__ import annotations

import errno
import platform
import struct

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_REFUSE = 0x00050000 | errno.EPERM
_MISSING = 0x00050000 | errno.ENOSYS
_NO_FAMILY = 0x00050000 | errno.EAFNOSUPPORT
_NUMBER, _ARCHITECTURE, _ARGUMENT_0 = 0, 4, 16
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

_MACHINES = {
    "x86_64": (0xC000003E, _X86_64 | _COMMON, 56, 41),
    "aarch64": (0xC00000B7, _AARCH64 | _COMMON, 220, 198),
}
"""Audit architecture, refused calls, number of clone, number of socket."""


def filter_bytes(machine: str = "") -> bytes:
    """The filter for this machine, b"" for an architecture without a table (then no filter is loaded, and levels.py
    says so). Argument 0 is compared by its low 32 bits, which is all the kernel reads for clone flags and families.
    """
    known = _MACHINES.get(machine or platform.machine())
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
    for number in sorted(set(refused.values())):
        program += [_step(_JUMP_EQUAL, number, 0, 1), _step(_RETURN, _REFUSE)]
    program += [
        _step(_JUMP_EQUAL, clone, 0, 4),
        _step(_LOAD, _ARGUMENT_0),
        _step(_JUMP_ANY_BIT, _NEW_NAMESPACES & ~0x80, 0, 1),  # 0x80 (NEWTIME) is a signal bit in clone
        _step(_RETURN, _REFUSE),
        _step(_RETURN, _ALLOW),
        _step(_JUMP_EQUAL, socket, 0, len(_FAMILIES) + 2),
        _step(_LOAD, _ARGUMENT_0),
        *(_step(_JUMP_EQUAL, family, len(_FAMILIES) - at, 0) for at, family in enumerate(_FAMILIES)),
        _step(_RETURN, _NO_FAMILY),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
