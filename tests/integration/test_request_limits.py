"""What strangers send is bounded before anything parses it: by a real daphne, whose memory and disk are measured, and
at the ASGI edge alone."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from agentops.edge import request_limits
from agentops.edge.request_limits.asgi import Edge
from agentops.embedded.process import Command
from tests import factories as make
from tests import stack
from tests.controls import switch
from tests.ports import free_port

pytestmark = pytest.mark.spec("X7")
MB = request_limits.MB
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=x"
# The product's own daphne, with the guard switched off that the process of the test names.
BEGIN = """
import sys
import daphne.server, django
django.setup()
from tests.controls import switch
switch.as_told()
"""
QUICK = """
from agentops.edge import request_limits
request_limits.PATIENCE_S = 1.0
"""
# What Django has parsed waits, with all that it holds, until the test lets it go.
HOLDING = """
import tempfile, time
from pathlib import Path
from django.middleware.csrf import CsrfViewMiddleware
here, judge = Path(tempfile.gettempdir()), CsrfViewMiddleware.process_view

def judge_and_wait(self, request, *more):
    answer = judge(self, request, *more)
    if request.method == "POST":
        (here / f"held-{id(request)}").touch()
        while not (here / "go").exists():
            time.sleep(0.02)
    return answer

CsrfViewMiddleware.process_view = judge_and_wait
"""
END = """
from daphne.cli import CommandLineInterface
CommandLineInterface().run(sys.argv[1:])
"""
HELD = 36
"""What a form may hold while Django works on it, in times its weight: one of escapes alone was measured with 29,
one whose letters take four bytes each with 11."""
COOKIE = f"csrftoken={'a' * 32}"
"""Without one Django refuses a form unread."""


class Site:
    """A daphne of its own, whose memory and disk are looked at; ``temporary`` is its folder for temporary files."""

    def __init__(self, port: int, pid: int, temporary: Path) -> None:
        self.port, self.pid, self.temporary = port, pid, temporary

    def ask(self, path: str, body: Any = b"", method: str = "POST", **headers: str) -> tuple[int, str, bytes]:
        """(status, type, body); 0 for a connection that was cut before an answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(client):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                client.request(method, path, body, named, encode_chunked=not isinstance(body, bytes))
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                answer = client.getresponse()
                return answer.status, answer.getheader("Content-Type", ""), answer.read()
        return 0, "", b""

    def memory(self, field: str) -> int:
        """Kilobytes of ``VmRSS`` (now) or ``VmHWM`` (at the most)."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

    def held(self) -> int:
        """Bytes of open files that have no name (any more): what waits on disk and can be seen here alone."""
        total = 0
        for opened in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                if opened.readlink().name.endswith(" (deleted)"):
                    total += opened.stat().st_size
        return total

    def files(self) -> set[Path]:
        """What has a name: its temporary files, and the state folder without what the servers of the suite keep."""
        servers = {settings.PATHS.postgres, settings.PATHS.valkey, settings.PATHS.logs}
        state = {path for top in set(settings.PATHS.state.iterdir()) - servers for path in (top, *top.rglob("*"))}
        return state | set(self.temporary.rglob("*"))

    def idle(self) -> int:
        """Its memory after ordinary requests."""
        for _ in range(20):
            assert self.ask("/login/", method="GET")[0] == 200
        return self.memory("VmRSS")

    def waiting(self) -> list[Path]:
        """Requests that Django has parsed and holds (`HOLDING`)."""
        return list(self.temporary.glob("held-*"))

    def forget_the_most(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@contextlib.contextmanager
def running(changed: str = "") -> Iterator[Site]:
    port = free_port()
    web = stack.stack.web("127.0.0.1", port)
    off = {switch.TOLD: told} if (told := os.environ.get(switch.TOLD)) else {}
    if changed or off:
        script = BEGIN + changed + END
        web = Command(web.name, [sys.executable, "-c", script, *web.argv[web.argv.index("-v") :]])
    with tempfile.TemporaryDirectory(prefix="ao-web-") as temporary:
        named = {"BASE_URL": f"http://127.0.0.1:{port}", "PORT": str(port), "TMPDIR": temporary}
        with stack.process(stack._on_test_database(web, **named, **off)) as process:
            stack.wait_until(lambda: stack.stack.answers(f"http://127.0.0.1:{port}/healthz"), "web")
            yield Site(port, process.pid, Path(temporary))


@pytest.fixture(scope="module")
def site(django_db_setup: None) -> Iterator[Site]:
    with running() as found:
        yield found


@pytest.fixture(scope="module")
def idle(site: Site) -> int:
    return site.idle()


def fields(size: int) -> bytes:
    """A multipart body of many small fields, the dearest there is."""
    one = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n'
    return one * (size // len(one)) + b"--x--\r\n"


def pieces(body: bytes, size: int = MB) -> Iterator[bytes]:
    yield from (body[at : at + size] for at in range(0, len(body), size))


HOSTILE = {
    "multipart": (lambda: fields(24 * MB), MULTIPART),
    "multipart, chunked": (lambda: pieces(fields(24 * MB)), MULTIPART),
    "form": (lambda: b"a=1&" * (6 * MB), FORM),
    "form, chunked": (lambda: pieces(b"a=1&" * (6 * MB)), FORM),
    "form of the size that is let in": (lambda: b"a=1&" * (request_limits.FORM // 4 - 1), FORM),
    "one field of the size that is let in": (lambda: b"a=" + b"%00" * (request_limits.FORM // 3 - 1), FORM),
    "json": (lambda: b"[" * (24 * MB), "application/json"),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("path", ["/login/", "/tasks/new/", "/api/v1/tasks/"])
def test_hostile_bodies_leave_the_memory_as_it_was(site: Site, idle: int, kind: str, path: str) -> None:
    make, media_type = HOSTILE[kind]
    site.forget_the_most()
    senders = [
        threading.Thread(target=lambda: site.ask(path, make(), Content_Type=media_type, Cookie=COOKIE), daemon=True)
        for _ in range(3)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    most = idle + (len(senders) * request_limits.FORM + HELD * request_limits.IN_HAND) // request_limits.KB
    print(f"{site.memory('VmHWM')} kB at the most, {idle} idle")
    assert site.memory("VmHWM") <= most
    assert site.ask("/login/", method="GET")[0] == 200


@contextlib.contextmanager
def three_lines(site: Site, *begin: str) -> Iterator[list[socket.socket]]:
    """Connections on which a request has begun."""
    with contextlib.ExitStack() as lines:
        opened = [socket.create_connection(("127.0.0.1", site.port), timeout=60) for _ in range(3)]
        for line in opened:
            lines.enter_context(line)
            line.sendall("\r\n".join(["POST " + begin[0] + " HTTP/1.1", "Host: localhost", *begin[1:], ""]).encode())
        yield opened


def status_of(line: socket.socket, pieces: Iterator[bytes]) -> int:
    """Of a request that goes on with ``pieces`` and is never whole; 0 for one that is not answered all the same."""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            line.sendall(piece)
    with contextlib.suppress(ConnectionError, TimeoutError):
        line.settimeout(3)
        return int(line.recv(64).split()[1])
    return 0


NO_END = {
    "form": ("/login/", FORM, 413),
    "page": ("/tasks/new/", FORM, 413),
    "text": ("/tasks/new/", "text/plain", 413),
    "multipart": ("/tasks/new/", MULTIPART, 415),
    "json": ("/api/v1/tasks/", "application/json", 413),
    "probe": ("/healthz", "text/plain", 413),
}


@pytest.mark.parametrize("kind", NO_END)
def test_bodies_without_an_end_leave_the_disk_as_it_was(site: Site, kind: str) -> None:
    path, media_type, status = NO_END[kind]
    before, files = site.held(), site.files()
    with three_lines(site, path, f"Content-Type: {media_type}", "Transfer-Encoding: chunked", "") as lines:
        piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
        for line in lines:
            assert status_of(line, (piece for _ in range(200))) in (status, 0), "0: hung up on while it was sending"
            assert site.held() - before <= 3 * request_limits.FORM
    stack.wait_until(lambda: site.held() <= before, "what waited to be gone", 30)
    assert not site.files() - files


def test_what_waits_for_its_end_is_no_more_than_is_let_in_and_goes_with_who_hangs_up(site: Site) -> None:
    before, files = site.held(), site.files()
    with three_lines(
        site, "/tasks/new/", f"Content-Type: {FORM}", f"Content-Length: {request_limits.FORM}", ""
    ) as lines:
        for line in lines:
            line.sendall(b"a" * (request_limits.FORM - 1))
        stack.wait_until(lambda: site.held() - before > 2 * request_limits.FORM, "the bodies to come", 30)
        assert site.held() - before <= 3 * request_limits.FORM
        assert not site.files() - files, "they have no name"
    stack.wait_until(lambda: site.held() <= before, "what waited to be gone", 30)


def test_headers_without_an_end_never_reach_the_disk(site: Site) -> None:
    before, files = site.held(), site.files()
    with three_lines(site, "/login/") as lines:
        for line in lines:
            assert status_of(line, (b"X-Long: " + b"a" * 8000 + b"\r\n" for _ in range(1000))) in (400, 431, 0)
            assert site.held() <= before
    assert not site.files() - files


def test_many_bodies_that_are_let_in_are_not_worked_on_all_at_once(django_db_setup: None) -> None:
    """Those that are worked on wait with all that they hold until every other one was judged: no figure depends on who
    was quicker."""
    body, count = b"a=" + b"b" * (2 * MB) + "\N{GRINNING FACE}".encode(), 24
    let_in = request_limits.IN_HAND // len(body)
    answers: list[int] = []
    with running(HOLDING) as site:
        idle = site.idle()
        senders = [
            threading.Thread(
                target=lambda: answers.append(site.ask("/tasks/new/", body, Content_Type=FORM, Cookie=COOKIE)[0])
            )
            for _ in range(count)
        ]
        for sender in senders:
            sender.start()
        try:
            stack.wait_until(lambda: len(answers) + len(site.waiting()) == count, "every body to be judged")
            held, most = len(site.waiting()), site.memory("VmHWM")
        finally:
            (site.temporary / "go").touch()
            for sender in senders:
                sender.join()
    print(f"{held} of {count} worked on at once; {most} kB at the most, {idle} idle")
    assert (held, answers.count(503), answers.count(403)) == (let_in, count - let_in, let_in)
    assert most <= idle + (count + let_in * HELD) * len(body) // request_limits.KB, "all were whole, and few worked on"


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/login/", 16 * 1024, 403),
        ("/login/", 16 * 1024 + 1, 413),
        ("/tasks/new/", request_limits.FORM, 403),
        ("/tasks/new/", request_limits.FORM + 1, 413),
        ("/api/v1/tasks/", MB, 401),
        ("/api/v1/tasks/", MB + 1, 413),
        ("/healthz", 1, 413),
    ],
)
@pytest.mark.parametrize("chunked", [False, True])
def test_each_address_takes_what_it_is_for(site: Site, path: str, size: int, status: int, chunked: bool) -> None:
    body = b"a" * size
    found, media_type, said = site.ask(path, pieces(body) if chunked else body, Content_Type="text/plain")
    assert found == status
    if status == 413:
        assert (media_type == "application/problem+json") is path.startswith("/api/")
        assert b"Nothing was changed" in said


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/login/?" + "a" * 9000, {}, 414),
        ("/api/v1/runs/?" + "a" * 9000, {}, 414),
        ("/login/", {"Content-Type": " Multipart/Form-Data; boundary=x"}, 415),
        ("/login/", {"Content-Length": "9" * 30}, 413),
    ],
)
def test_what_a_request_says_of_itself_is_judged_first(site: Site, path: str, headers: Any, status: int) -> None:
    assert site.ask(path, method="POST", **headers)[0] == status


def test_long_headers_are_refused_while_they_come(site: Site) -> None:
    """By Twisted, which hangs up: a client that is still sending may not see its 400."""
    assert site.ask("/login/", method="GET", X_Long="a" * 16_500)[0] in (400, 0)


def test_a_request_that_changes_nothing_brings_little(site: Site) -> None:
    assert site.ask("/login/", b"a" * 20_000, method="GET")[0] == 413
    assert site.ask("/login/", b"a" * 2_000, method="GET")[0] == 200


def queue_of_somebody(site: str) -> Any:
    client = Client()
    client.force_login(make.user(operator=make.project()))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={session}", "Origin": site}
    return connect(site.replace("http://", "ws://") + "/ws/queue/", additional_headers=headers, open_timeout=120)


def test_a_frame_of_a_socket_is_bounded(live_site: str) -> None:
    with queue_of_somebody(live_site) as ws:
        assert ws.recv(120) == '{"t":"hello"}'
        ws.send("x" * (request_limits.FRAME + 1))
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(120)
    assert getattr(closed.value.rcvd, "code", 1009) == 1009, "the server's own end, before any of our code"


def test_a_socket_is_closed_with_a_code_that_the_server_can_send(live_site: str) -> None:
    with queue_of_somebody(live_site) as ws:
        for _ in range(40):
            with contextlib.suppress(ConnectionClosed):
                ws.send("{}")
        stack.wait_until(lambda: ws.close_code, "the socket to be closed")
    assert ws.close_code == 4008


def test_who_sends_slowly_is_told_and_hung_up_on(django_db_setup: None) -> None:
    with running(QUICK) as site:
        for begun in (b"Host: localhost\r\n", b"Content-Length: 9\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", site.port), timeout=20) as line:
                line.sendall(b"POST /login/ HTTP/1.1\r\n" + begun)
                began = time.monotonic()
                said = b""
                with contextlib.suppress(ConnectionError):
                    while piece := line.recv(4096):
                        said += piece
                        line.sendall(b"a")
                assert said.startswith(b"HTTP/1.1 408 ")
                assert time.monotonic() - began < 30, "half of what is patience elsewhere"


# --- The edge alone, as behind another server ------------------------------------------------------------------------


async def sent(edge: Edge, *bodies: bytes, path: str = "/tasks/new/", pause: float = 0, **headers: str) -> int:
    """The status of a request whose body comes in pieces; the application says 200."""
    waiting = list(bodies)
    answers: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(pause)
        piece = waiting.pop(0) if waiting else b""
        return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

    async def send(message: Any) -> None:
        answers.append(message)

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await edge({"type": "http", "method": "POST", "path": path, "headers": named}, receive, send)
    return int(answers[0]["status"])


async def application(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    assert message["more_body"] is False
    await asyncio.sleep(0.05)
    await send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize(
    ("bodies", "headers", "status"),
    [
        ([b"a" * MB, b"b" * MB], {}, 200),
        ([b"a" * MB] * 3, {}, 413),
        ([b"a"], {"content_type": MULTIPART}, 415),
        ([b"a"], {"content_length": "3000000"}, 413),
        ([b"a"], {"cookie": "a" * 40_000}, 431),
    ],
)
def test_the_edge_needs_no_daphne(bodies: list[bytes], headers: dict[str, str], status: int) -> None:
    assert asyncio.run(sent(Edge(application), *bodies, **headers)) == status


def test_the_edge_has_a_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "PATIENCE_S", 0.05)
    assert asyncio.run(sent(Edge(application), b"a", b"b", pause=0.04)) == 408


def test_the_edge_works_on_so_much_at_once_and_then_on_more() -> None:
    async def all_at_once() -> tuple[list[int], int]:
        edge = Edge(application)
        many = await asyncio.gather(*(sent(edge, b"a" * (2 * MB)) for _ in range(9)))
        assert edge.in_hand == 0
        return sorted(many), await sent(edge, b"a" * (2 * MB))

    assert asyncio.run(all_at_once()) == ([200] * 4 + [503] * 5, 200)


def test_the_edge_works_on_one_long_form_of_escapes_at_a_time() -> None:
    """The longest goal in a wide script is one, so it is let in."""
    body = b"%E4%B8%AD" * (request_limits.FORM // 9)

    async def two_at_once() -> list[int]:
        edge = Edge(application)
        return sorted(await asyncio.gather(sent(edge, body), sent(edge, body)))

    assert asyncio.run(two_at_once()) == [200, 503]
