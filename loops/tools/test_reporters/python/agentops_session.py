"""One connection to the worker that runs the command, for each session of a test runner.

Whatever goes wrong here is silent: no run of tests may end, print or take longer for it. Programs that the tests start
report nothing, and see nothing of us.
"""

import functools
import os

HERE = globals().get("HERE", "")
PLACE = os.environ.get("AGENTOPS_TEST_REPORT", "")
_SEND_S = 30.0
_LONGEST_ID, _LONGEST_MESSAGE, _IDS_AT_ONCE = 1000, 300, 8000
current = None


def quiet(method):
    """What fails in it leaves the session without an end, so that it is not taken for a whole one."""

    @functools.wraps(method)
    def inner(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except Exception:
            self.close()
            return None

    return inner


class Session:
    def __init__(self, runner):
        import json
        import socket

        self.runner, self.process, self.result = runner, os.getpid(), None
        self.reported, self.begun, self.has_collected = {}, {}, False
        self._dumps, self._flags = json.dumps, socket.MSG_NOSIGNAL
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connect()
        self.send({"event": "start", "v": 1, "runner": runner, "pid": self.process})

    @quiet
    def _connect(self):
        self.socket.settimeout(_SEND_S)
        self.socket.connect(PLACE)
        self.inode = os.fstat(self.socket.fileno()).st_ino

    @quiet
    def send(self, event):
        if self.socket is None or os.getpid() != self.process:
            return
        if os.fstat(self.socket.fileno()).st_ino != self.inode:  # the tests closed it, and gave its number away
            self.socket.detach()
            raise OSError("not our socket")
        self.socket.sendall(self._dumps(event).encode() + b"\n", self._flags)

    def close(self):
        found, self.socket = self.socket, None
        if found is not None:
            try:
                found.close()
            except OSError:
                pass

    @quiet
    def collected(self, names, deselected=()):
        """In events that are short enough."""
        counts = {}
        numbered = [_numbered(name, counts) for name in names]
        for key, ids in (("tests", numbered), ("deselected", deselected)):
            some, size = [], 0
            for name in map(_short, ids):
                if some and size + len(name) > _IDS_AT_ONCE:
                    self.send({"event": "collected", key: some})
                    some, size = [], 0
                some.append(name)
                size += len(name)
            if some:
                self.send({"event": "collected", key: some})

    @quiet
    def test(self, name, outcome, message="", seconds=0.0):
        event = {"event": "test", "id": _short(_numbered(name, self.reported)), "outcome": outcome}
        lines = str(message).strip().splitlines()
        if lines:
            event["message"] = lines[0][:_LONGEST_MESSAGE]
        event["seconds"] = round(seconds, 4)
        self.send(event)


def _numbered(name, counts):
    """Two tests of one name are told apart by their order."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else "%s #%d" % (name, counts[name])


def _short(name):
    """A long name by its beginning, and by what tells it from others that begin so."""
    if len(name) <= _LONGEST_ID:
        return name
    import hashlib

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return "%s...%s" % (name[: _LONGEST_ID - 20], digest[:16])


def begin(runner):
    """The session of this process, or None where there is one already: then that one reports."""
    global current
    if current is not None or not PLACE:
        return None
    current = Session(runner)
    os.environ.pop("AGENTOPS_TEST_REPORT", None)
    paths = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    others = [path for path in paths if path and os.path.abspath(path) != HERE]
    if others:
        os.environ["PYTHONPATH"] = os.pathsep.join(others)
    return current


def end(session, code):
    """Nothing where the session is another's, or where this is a process that the tests made."""
    global current
    if session is None or session.process != os.getpid():
        return
    session.send({"event": "end", "exit": int(code) if isinstance(code, int) else 0 if code is None else 1})
    session.close()
    current = None
