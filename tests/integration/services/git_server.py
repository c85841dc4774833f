"""A repository on a server of its own: git's smart HTTP protocol, with a password where a test wants one."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

BACKEND = "/usr/lib/git-core/git-http-backend"
PERSON = {"GIT_AUTHOR_NAME": "Ana", "GIT_AUTHOR_EMAIL": "ana@example.com"}
PERSON |= {"GIT_COMMITTER_NAME": "Ana", "GIT_COMMITTER_EMAIL": "ana@example.com"}


def git(folder: Path, *words: str, data: bytes = b"") -> str:
    done = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **PERSON},
        input=data,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().strip()


class GitServer:
    """``folder`` is the work tree of a person who pushes; what it has is at ``url``."""

    def __init__(self, folder: Path) -> None:
        self.root, self.folder = folder / "served", folder / "person"
        self.authorization = ""
        self.redirect = ""
        self.asked: list[str] = []
        self.before: Callable[[str], object] = lambda path: None
        self.after: Callable[[str], object] = lambda path: None
        """Called with each path that is asked for, before it is done and before it is answered."""
        self.released = Event()
        self.released.set()
        self.root.mkdir()
        self.folder.mkdir()
        git(self.root, "init", "-q", "--bare", "shop.git")
        git(self.root / "shop.git", "config", "http.receivepack", "true")
        git(self.folder, "init", "-q")
        git(self.folder, "remote", "add", "origin", str(self.root / "shop.git"))
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/shop.git"

    def push(self, files: dict[str, str], *, branch: str = "main", message: str = "Change it") -> str:
        """The commit that the branch is at then."""
        git(self.folder, "checkout", "-q", "-B", branch)
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        git(self.folder, "push", "-q", "-f", "origin", f"HEAD:refs/heads/{branch}")
        return git(self.folder, "rev-parse", "HEAD")

    def wants(self, user: str, password: str) -> None:
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    @contextmanager
    def serving(self) -> Iterator[GitServer]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, self))
        self.port = server.server_port
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self.released.set()
            server.shutdown()
            server.server_close()


class Handler(BaseHTTPRequestHandler):
    def __init__(self, ours: GitServer, *given: object) -> None:
        self.ours = ours
        super().__init__(*given)  # type: ignore[arg-type]

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        self.ours.asked.append(self.path)
        self.ours.released.wait(60)
        if self.ours.redirect:
            self.send_response(301)
            self.send_header("Location", self.ours.redirect + self.path)
            self.end_headers()
            return
        if self.ours.authorization and self.headers.get("Authorization") != self.ours.authorization:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.ours.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        self.ours.before(self.path)
        done = subprocess.run([BACKEND], env=environment, input=body, capture_output=True, check=False)
        self.ours.after(self.path)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(value[:3]) for name, value in fields if name == "Status"), 200)
        self.send_response(status)
        for name, value in fields:
            if name != "Status":
                self.send_header(name, value)
        with contextlib.suppress(ConnectionError):  # whoever asked was killed
            self.end_headers()
            self.wfile.write(content)
