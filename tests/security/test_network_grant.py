"""A command that was granted hosts reaches those, through a proxy that writes each request down, and no others (SPEC
I7, S3), in the real sandbox.
"""

from __future__ import annotations

import asyncio
import socket
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from loops.tools.limits import Limits
from loops.tools.sandbox import capability
from loops.tools.sandbox.network.hosts import hosts
from loops.tools.sandbox.network.proxy import LONGEST_HEAD, Proxy, Request
from loops.tools.sandbox.runner import Job, Outcome, run_inside
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import Workspace
from loops.workspaces.networked import is_never_reached

pytestmark = pytest.mark.spec("I7", "S3", "X7")
GET = "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode()[:200])"


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "packages").write_text("all the packages")
    (folder / "large").write_bytes(b"x" * 3_000_000)
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder)))
    Thread(target=serving.serve_forever, daemon=True).start()
    yield serving.server_port
    serving.shutdown()
    serving.server_close()


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder, self.requests = folder, list[Request]()
        for name in ("work", "network", "records"):
            (folder / name).mkdir()
        folder.chmod(0o755)

    def run(self, *argv: str, granted: list[str] | None, namespaces: bool = True) -> Outcome:
        return asyncio.run(self._run(argv, granted, namespaces))

    async def _run(self, argv: tuple[str, ...], granted: list[str] | None, namespaces: bool) -> Outcome:
        network = str(self.folder / "network")
        job = Job(argv, 600, network=network if granted is not None else "")
        proxy = Proxy(hosts(granted or []), is_never_reached, self.requests.append)
        records = str(self.folder / "records")
        with Workspace(str(self.folder / "work"), Limits(), made=True, records=records) as workspace:
            async with proxy.listening(network):
                return await run_inside(workspace, job, lambda stream, chunk: None, namespaces=namespaces)

    def get(self, url: str, granted: list[str] | None) -> tuple[int, str]:
        found = self.run("python3", "-c", GET, url, granted=granted).finished
        return found.exit_code, (found.stdout + found.stderr).decode()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    assert capability.probe().level == capability.FULL, capability.probe().warning
    return Bench(tmp_path)


def test_a_host_that_is_named_is_reached_and_written_down(bench: Bench, server: int) -> None:
    code, said = bench.get(f"http://127.0.0.1:{server}/packages", [f"127.0.0.1:{server}"])
    assert (code, said) == (0, "all the packages\n")
    (request,) = bench.requests
    assert (request.host, request.why_not) == (f"127.0.0.1:{server}", "")
    assert request.received > len("all the packages")


@pytest.mark.parametrize("granted", [["pypi.org"], ["127.0.0.1:1"], ["127.0.0.1"], []])
def test_any_other_is_not(bench: Bench, server: int, granted: list[str]) -> None:
    """The port is part of it: the database listens somewhere too."""
    code, said = bench.get(f"http://127.0.0.1:{server}/packages", granted)
    assert (code, "403: Forbidden" in said) == (1, True), said
    assert [(one.host, one.why_not) for one in bench.requests] == [
        (f"127.0.0.1:{server}", "this host is not on the list")
    ]


def test_without_a_grant_there_is_no_network_at_all(bench: Bench, server: int) -> None:
    code, said = bench.get(f"http://127.0.0.1:{server}/packages", None)
    assert (code, "Connection refused" in said) == (1, True)
    found = bench.run("ls", "/network", granted=None).finished
    assert found.exit_code == 2


def test_there_is_no_way_past_the_proxy(bench: Bench, server: int) -> None:
    """Neither to the server by itself, nor to a name server."""
    code = (
        "import socket, urllib.request as u\n"
        f"for go in (lambda: socket.create_connection(('127.0.0.1', {server}), 2),\n"
        "    lambda: socket.create_connection(('9.9.9.9', 53), 2), lambda: socket.getaddrinfo('pypi.org', 443)):\n"
        "    try: go(); print('REACHED')\n"
        "    except OSError as error: print('no')\n"
    )
    found = bench.run("python3", "-c", code, granted=[f"127.0.0.1:{server}"]).finished
    assert found.stdout.decode().split() == ["no"] * 3, found
    assert bench.requests == []


def test_a_tunnel_is_for_the_host_that_is_named(bench: Bench, server: int) -> None:
    code = (
        "import socket, sys\n"
        "for port in sys.argv[1:]:\n"
        "    way = socket.create_connection(('127.0.0.1', 3128), 60)\n"
        "    way.sendall(f'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())\n"
        "    print(way.recv(100).split(b'\\r\\n')[0].decode())\n"
        "    way.sendall(b'GET /packages HTTP/1.0\\r\\n\\r\\n')\n"
        "    print(b''.join(iter(lambda: way.recv(9999), b''))[-16:].decode())\n"
    )
    found = bench.run("python3", "-c", code, str(server), granted=[f"127.0.0.1:{server}"]).finished
    assert found.stdout.decode().splitlines() == ["HTTP/1.1 200 Connection established", "all the packages"], found
    found = bench.run("python3", "-c", code, "1", granted=[f"127.0.0.1:{server}"]).finished
    assert found.stdout.decode().splitlines()[0] == "HTTP/1.1 403 Forbidden", found


def test_a_name_that_leads_to_this_machine_is_not_followed(
    bench: Bench, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever answers for a named host cannot point it at the services of the machine, nor at its credentials."""

    leads_to = ["127.0.0.1", "169.254.169.254"]

    async def found(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (leads_to.pop(), server))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)
    for _ in list(leads_to):
        code, said = bench.get(f"http://far.example:{server}/packages", [f"far.example:{server}"])
        assert (code, "403: Forbidden" in said) == (1, True)
        assert bench.requests[-1].why_not == "it leads to an address that no command may reach"


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /packages HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET https://127.0.0.1:PORT/packages HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT a:99999 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x/ HTTP/1.1\r\n" + b"A: b\r\n" * LONGEST_HEAD,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["words", "a file", "no host", "tls", "no port", "port", "address", "long", "binary"],
)
def test_what_is_no_request_is_answered_and_ends_nothing(bench: Bench, server: int, sent: bytes) -> None:
    (bench.folder / "work/sent").write_bytes(sent.replace(b"PORT", str(server).encode()))
    code = (
        "import socket, sys, urllib.request as u\n"
        "way = socket.create_connection(('127.0.0.1', 3128), 60)\n"
        "try: way.sendall(open('sent', 'rb').read())\n"
        "except OSError: pass\n"
        "try: print(way.recv(100).split(b'\\r\\n')[0].decode() or 'HTTP/1.1 closed')\n"
        "except OSError: print('HTTP/1.1 closed')\n" + GET
    )
    where = f"http://127.0.0.1:{server}/packages"
    found = bench.run("python3", "-c", code, where, granted=[f"127.0.0.1:{server}"]).finished
    first, *rest = found.stdout.decode().splitlines()
    assert first.split()[1] in ("403", "502", "closed"), found
    assert rest == ["all the packages"], found


def test_much_and_many_at_once_come_through_whole(bench: Bench, server: int) -> None:
    code = (
        "import sys, urllib.request as u; from concurrent.futures import ThreadPoolExecutor as P\n"
        "read = lambda _: len(u.urlopen(sys.argv[1], timeout=300).read())\n"
        "with P(40) as pool: print(sum(pool.map(read, range(120))))"
    )
    found = bench.run("python3", "-c", code, f"http://127.0.0.1:{server}/large", granted=[f"127.0.0.1:{server}"])
    assert found.finished.stdout.decode() == f"{120 * 3_000_000}\n", found
    assert sum(one.received for one in bench.requests) > 120 * 3_000_000


def test_what_it_says_and_how_it_ends_is_the_command_s_own(bench: Bench) -> None:
    found = bench.run("bash", "-c", "echo out; echo err >&2; exit 7", granted=["pypi.org"]).finished
    assert (found.exit_code, found.stdout, found.stderr) == (7, b"out\n", b"err\n")
    assert found.duration_ms < 30_000, "nothing is waited for that the command did not begin"


def test_without_namespaces_it_is_refused(bench: Bench) -> None:
    with pytest.raises(PathRefused, match="needs a network of its own"):
        bench.run("true", granted=["pypi.org"], namespaces=False)


@contextmanager
def index(folder: Path) -> Iterator[int]:
    """A package index as pip reads it, with one package."""
    served = folder / "served/shelf"
    served.mkdir(parents=True)
    wheel, about = "shelf-1.0-py3-none-any.whl", "shelf-1.0.dist-info"
    with zipfile.ZipFile(served / wheel, "w") as file:
        file.writestr("shelf.py", "BOOKS = 3\n")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", f"shelf.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n")
    (served / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(folder / "served")))
    Thread(target=serving.serve_forever, daemon=True).start()
    yield serving.server_port
    serving.shutdown()
    serving.server_close()


def test_a_package_client_installs_through_it(bench: Bench, tmp_path: Path) -> None:
    with index(tmp_path) as port:
        line = (
            "python3 -m venv .venv && .venv/bin/pip install -q --no-cache-dir --no-deps "
            f"--index-url http://127.0.0.1:{port}/ shelf && .venv/bin/python -c 'import shelf; print(shelf.BOOKS)'"
        )
        found = bench.run("bash", "-c", line, granted=[f"127.0.0.1:{port}"]).finished
    assert (found.exit_code, found.stdout.decode().splitlines()[-1:]) == (0, ["3"]), found
    assert {one.host for one in bench.requests} == {f"127.0.0.1:{port}"}
