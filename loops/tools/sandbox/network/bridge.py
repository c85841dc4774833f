"""Runs inside of a sandbox, by its own Python: what a command sends to 127.0.0.1 goes to the proxy's socket.

A network namespace has no other way out. The file is handed over as text, so it needs nothing but the standard library.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Sequence

PORT = 3128
SOCKET = "/network/proxy"
_HERE = f"http://127.0.0.1:{PORT}"
_PROXY = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO")


def variables() -> dict[str, str]:
    """By which package clients find the proxy, and the authorities that this machine trusts."""
    trusted = next(filter(os.path.isfile, _AUTHORITIES), "")
    return dict.fromkeys(_PROXY, _HERE) | (dict.fromkeys(_CERTIFICATES, trusted) if trusted else {})


def before(argv: Sequence[str]) -> tuple[str, ...]:
    """The words that bring the bridge up, and then run ``argv``."""
    with open(__file__) as source:
        return ("python3", "-ISc", source.read(), *argv)


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, to its end."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection of the command."""
    try:
        there, away = await asyncio.open_unix_connection(SOCKET)
    except OSError:
        writer.close()
        return
    await asyncio.gather(carry(reader, away), carry(there, writer))
    away.close()
    writer.close()


async def serve(listener: socket.socket) -> None:
    server = await asyncio.start_server(joined, sock=listener)
    await server.serve_forever()


def main() -> None:
    """Listen, leave a process that serves, and become the command."""
    listener = socket.create_server(("127.0.0.1", PORT))
    if os.fork() == 0:
        if os.fork() == 0:  # a child of nobody the command knows
            nowhere = os.open("/dev/null", os.O_RDWR)
            for stream in range(3):  # or whoever reads the command's output would wait for this process
                os.dup2(nowhere, stream)
            asyncio.run(serve(listener))
        os._exit(0)
    os.wait()
    listener.close()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command itself


if __name__ == "__main__":
    main()
