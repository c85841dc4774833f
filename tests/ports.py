"""Ports for servers of tests, which nobody else on the machine gets while this process lives."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of 127.0.0.1 that stays ours until this process ends.

    A socket that is bound and never listens keeps it: the kernel gives it to nobody who asks for any port. Servers,
    which all ask to share their address, may bind it besides, and again after each restart.
    """
    with socket.socket() as keeper:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            keeper.setsockopt(socket.SOL_SOCKET, option, 1)
        keeper.bind(("127.0.0.1", 0))
        port = int(keeper.getsockname()[1])
        keeper.detach()  # open until the end of the process
    return port
