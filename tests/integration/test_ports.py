"""A port that a test was given is there when its server binds it, however long that takes and however often."""

from __future__ import annotations

import errno
import socket

import pytest

from tests.ports import free_port


def test_nobody_else_gets_it() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use") as refused:
        other.bind(("127.0.0.1", port))
    assert refused.value.errno == errno.EADDRINUSE


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_its_server_listens_there_and_does_so_again(host: str) -> None:
    port = free_port()
    for _ in range(2):
        with socket.create_server((host, port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_where_no_server_is_there_nobody_answers() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port()))
