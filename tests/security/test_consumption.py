"""Each limit of a command, attacked by every kind of thing that uses it up: both sandboxes, and two tenants at once.

Real commands in the real sandbox (SPEC I7). Each writes ``begun`` before and ``held`` after it has taken what it wants;
``test_control_*`` shows that the same code gets it where nothing holds it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loops.engine.values import ToolResult
from loops.tools.limits import KIB, MIB, Limits
from loops.tools.sandbox import capability
from loops.tools.sandbox.capability import CONFINED, FULL, SandboxLevel
from tests.security.processes import segments_of
from tests.unit.tools.harness import Desk, reachable

pytestmark = pytest.mark.spec("I7", "X1")
BOTH = pytest.mark.parametrize("level", [FULL, CONFINED], ids=["namespaces", "landlock"])
SMALL = Limits(memory_bytes=150 * MIB, workspace_bytes=150 * MIB, workspace_files=2_000, processes=40)
END = "\nprint('held', flush=True)\nimport time; time.sleep(60)"
SHARED = "import mmap\nkept = []\nfor _ in range(8):\n  m = mmap.mmap(-1, 64 << 20); kept.append(m)\n"
SHARED += "  for at in range(0, 64 << 20, 4096): m[at] = 1\n"
LIBC = "import ctypes, socket\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.shmat.restype = ctypes.c_void_p\n"
SEGMENTS = LIBC + (
    "kept = []\nfor _ in range(8):\n  one = libc.shmget(0, 64 << 20, 0o1600)\n"
    "  if one < 0: raise OSError(ctypes.get_errno(), 'no segment')\n"
    "  kept.append(one)\n"
    "  at = libc.shmat(one, None, 0); ctypes.memset(at, 1, 64 << 20); libc.shmdt(ctypes.c_void_p(at))\n"
)
LET_GO = {"segments": "import atexit\natexit.register(lambda: [libc.shmctl(one, 0, None) for one in kept])\n"}
"""What outlives its process. Before the code: it is let go of however that ends."""
FULL_CONNECTIONS = (
    "import socket\nserver = socket.socket(); server.setsockopt(1, socket.SO_RCVLOWAT, 1 << 30)\n"
    "server.bind(('127.0.0.1', 0)); server.listen(100)\nkept, held = [], 0\n"
    "while held < 300 << 20 and len(kept) < 60:\n"
    "  one = socket.create_connection(server.getsockname()); kept.append(one); one.settimeout(0.2)\n"
    "  try:\n    while True: held += one.send(bytes(1 << 20))\n  except TimeoutError: pass\n"
)
LOCAL_CONNECTIONS = (
    "import socket\nserver = socket.socket(socket.AF_UNIX); server.bind('a\\nb\\n'); server.listen(4096)\n"
    "for _ in range(800):\n  one = socket.socket(socket.AF_UNIX); one.connect('a\\nb\\n'); one.setblocking(False)\n"
    "  try:\n    while True: one.send(bytes(1 << 16))\n  except BlockingIOError: one.close()\n"
)
LETTERS = (
    "import socket\nkept = []\nfor n in range(80):\n"
    "  box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); box.bind(f'\\0box{n}'); kept.append(box)\n"
    "  for _ in range(11):\n    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:\n"
    "      one.setblocking(False); assert one.sendto(bytes(200_000), f'\\0box{n}')\n"
)
NAMED = "for _ in range(2): os.fork()\nfor n in range(800):\n  name = f'_{os.getpid()}'; os.mkfifo(name)\n"
NAMED += "  pipe = os.open(name, os.O_RDWR | os.O_NONBLOCK); os.unlink(name); os.write(pipe, bytes(1 << 20))\n"
EVENTS = LIBC + (
    "kept = [libc.inotify_init() for _ in range(20)]\n"
    "if any(libc.inotify_add_watch(one, b'.', 0xfff) < 0 for one in kept): raise OSError('no watch')\n"
    "for n in range(5_000):\n  name = f'{n:0245}'; open(name, 'w').close(); os.unlink(name)\n"
)
MEMORY = {
    "pages of its own": "kept = bytearray(400 << 20)",
    "an anonymous file": "file = os.memfd_create('x')\nfor _ in range(400): os.write(file, b'x' * (1 << 20))",
    "shared pages": SHARED,
    "shared pages that were let go of": SHARED + "  m.madvise(mmap.MADV_DONTNEED)\n",
    "segments": SEGMENTS,
    "unread sockets": (
        "import socket\nkept = [socket.socketpair() for _ in range(450)]\n"
        "for one, _ in kept:\n  one.setblocking(False)\n"
        "  try:\n    while True: one.send(b'x' * 65536)\n  except BlockingIOError: pass\n"
    ),
    "pipes that had names": NAMED,
    "events of watched folders": EVENTS,
    "full connections": FULL_CONNECTIONS + "  kept.append(server.accept()[0])\n",
    "full connections that nobody takes": FULL_CONNECTIONS,
    "full connections that nobody has": FULL_CONNECTIONS + "  one.close()\n",
    "local connections that nobody takes or has": LOCAL_CONNECTIONS,
    "messages of senders that are gone": LETTERS,
    "many of one": "import os\nfor _ in range(3): os.fork()\nkept = bytearray(50 << 20)",
}
WRITTEN = "kept = []\nfor n in range(4):\n  f = open(f'{place}/{n}', 'wb'); os.unlink(f.name); kept.append(f)\n"
WRITTEN += "  for _ in range(100): f.write(b'x' * (1 << 20))\n  f.flush()\n"
TWENTY = "for n in range(8):\n  f = open(f'_{n}', 'wb+'); os.unlink(f.name)\n"
TWENTY += "  for _ in range(20): f.write(bytes(1 << 20))\n  f.flush()\n"
HIDDEN = {
    "mapped by one page": (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.mmap.restype = ctypes.c_void_p\n"
        "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]\n"
        f"{TWENTY}  assert libc.mmap(None, 4096, 1, 1, f.fileno(), 0) + 1; f.close()\n"
    ),
    "on its way": (
        "import socket\none, other = socket.socketpair()\n"
        f"{TWENTY}  socket.send_fds(one, [b'x'], [f.fileno()]); f.close()\n"
    ),
}
"""Files on disk without a name: one has no descriptor, the other has it in no process."""
NAMES = "for n in range(100_000): open(f'{place}/{n}', 'w').close()\n"


@pytest.fixture(scope="module", autouse=True)
def full() -> None:
    assert capability.probe().level == FULL, capability.probe().warning


def desk_of(folder: Path, level: int, limits: Limits = SMALL) -> Desk:
    if level == FULL:
        return Desk(folder, level=capability.probe(), limits=limits)
    return Desk(reachable(folder), level=SandboxLevel(CONFINED, "landlock", (), "weak"), limits=limits)


def python(desk: Desk, code: str, seconds: float = 60) -> ToolResult:
    words = f"import os\nplace = os.environ['TMPDIR']\nprint('begun', flush=True)\n{code}{END}"
    return desk.run("run_command", argv=["python3", "-c", words], timeout_s=seconds)


def stopped(result: ToolResult, *words: str) -> bool:
    """Ended by us in these words, or by itself because it got no more."""
    assert "begun" in result.content, result
    refused = "held" not in result.content and "Error" in result.content and "time limit" not in result.error
    return refused or any(word in result.error for word in words)


@BOTH
@pytest.mark.parametrize("kind", MEMORY)
def test_memory_of_every_kind_is_counted(tmp_path: Path, level: int, kind: str) -> None:
    result = python(desk_of(tmp_path, level), MEMORY[kind])
    assert stopped(result, "bytes of memory, the limit is"), result


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/home/agent"])
def test_folders_in_memory_are_memory(tmp_path: Path, place: str) -> None:
    """Files that have lost their names too: a folder in memory counts what it holds."""
    limits = Limits(memory_bytes=50 * MIB, tmp_bytes=256 * MIB)
    code = f"f = open({place!r} + '/x', 'wb'); os.unlink(f.name)\nfor _ in range(60): f.write(bytes(1 << 20))"
    result = python(desk_of(tmp_path, FULL, limits), code)
    assert stopped(result, "bytes of memory, the limit is"), result


@BOTH
def test_names_without_bytes_are_counted(tmp_path: Path, level: int) -> None:
    result = python(desk_of(tmp_path, level), NAMES)
    assert stopped(result, "more than 2000 files"), result


@BOTH
def test_files_on_disk_without_a_name_are_counted(tmp_path: Path, level: int) -> None:
    result = python(desk_of(tmp_path, level), "place = '.'\n" + WRITTEN)
    assert stopped(result, "its quota is"), result


@pytest.fixture
def disk_apart(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk from which nobody else deletes meanwhile what would hide a loss, where there is one."""
    if shutil.disk_usage("/dev/shm").free < 1 << 30:
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@BOTH
@pytest.mark.parametrize("kind", HIDDEN)
@pytest.mark.xdist_group("disk")  # what one writes is what the other lost
def test_files_whose_size_nobody_sees_are_counted_by_what_the_disk_lost(
    disk_apart: Path, level: int, kind: str
) -> None:
    """However much room the disk has."""
    limits = Limits(workspace_bytes=40 * MIB, tmp_bytes=20 * MIB)
    result = python(desk_of(disk_apart, level, limits), HIDDEN[kind])
    assert "the disk lost" in result.error, result
    assert "begun" in result.content


@BOTH
@pytest.mark.xdist_group("disk")
def test_a_program_with_sockets_whose_library_was_replaced_works(tmp_path: Path, level: int) -> None:
    """Such as a server that is upgraded while it runs: both kinds of what cannot be seen, at sizes that it may have."""
    code = "import time\nopen('kept', 'wb').write(bytes(40 << 20))\n"
    code += "".join(HIDDEN.values()).replace("range(8)", "range(1)")
    code += "time.sleep(1.5)\nprint('worked', flush=True); os._exit(0)"
    result = python(desk_of(tmp_path, level, Limits(disk_reserve_bytes=1 << 60)), code)
    assert result.ok, result
    assert "worked" in result.content


@BOTH
@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_threads_and_processes_are_counted(tmp_path: Path, level: int) -> None:
    desk = desk_of(tmp_path, level, Limits(processes=40))
    threads = (
        "import threading as t, time\nfor _ in range(80): t.Thread(target=time.sleep, args=(20,), daemon=True).start()"
    )
    assert stopped(python(desk, threads), "processes and threads, the limit is 40")
    children = "import subprocess\nkept = [subprocess.Popen(['sleep', '20']) for _ in range(80)]"
    assert stopped(python(desk, children), "processes and threads, the limit is 40")


@pytest.mark.parametrize(
    "call", ["libc.shmget(0, 16_385, 0o1600)", "libc.semget(0, 33, 0o1600)", "libc.msgget(0, 896)"]
)
def test_queues_of_the_kernel_are_few_and_small(tmp_path: Path, call: str) -> None:
    code = LIBC + f"if {call} < 0: raise OSError(ctypes.get_errno(), 'refused')"
    assert "OSError" in python(desk_of(tmp_path, FULL), code).content


def test_small_segments_still_work(tmp_path: Path) -> None:
    """A database server takes a few bytes of them to find out whether it runs already."""
    code = LIBC + "one = libc.shmget(0, 56, 0o1600); at = libc.shmat(one, None, 0); ctypes.memset(at, 1, 56)\n"
    code += "assert one >= 0 and libc.semget(0, 17, 0o1600) >= 0\nprint('worked', flush=True); os._exit(0)"
    assert "worked" in python(desk_of(tmp_path, FULL), code).content


@pytest.mark.parametrize("kind", [kind for kind in MEMORY if kind not in ("pages of its own", "many of one")])
def test_control_outside_the_sandbox_it_is_held(tmp_path: Path, kind: str) -> None:
    words = f"import os\n{LET_GO.get(kind, '')}{MEMORY[kind]}\nprint('held', flush=True)"
    with subprocess.Popen([sys.executable, "-c", words], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as outside:
        said, _ = outside.communicate(timeout=60)
    assert "held" in said
    assert segments_of(outside.pid) == [], "none is left to the machine"


# --- two tenants ----------------------------------------------------------------------------------------------------

BOMB = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)"
STEADY = """
import subprocess, time
took = []
end = time.time() + {seconds}
while time.time() < end:
    began = time.time()
    crowd = [subprocess.Popen(["true"]) for _ in range(20)]
    [one.wait() for one in crowd]
    took.append(time.time() - began)
took.sort()
print("p95", took[int(len(took) * 0.95)], len(took))
"""


@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_processes_of_one_tenant_are_not_the_limit_of_another(tmp_path: Path) -> None:
    """One bombs, the other starts twenty processes at a time, again and again, and never gets a refusal."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    steady, bomber = desk_of(tmp_path / "a", FULL), desk_of(tmp_path / "b", FULL, Limits(processes=60))
    ended = threading.Event()

    def bomb() -> None:
        while not ended.is_set():
            bomber.run("run_command", argv=["python3", "-c", BOMB], timeout_s=8)

    beside = threading.Thread(target=bomb)
    beside.start()
    try:
        time.sleep(1)
        result = steady.run("run_command", argv=["python3", "-c", STEADY.format(seconds=4)], timeout_s=60)
    finally:
        ended.set()
        beside.join()
    print(result.content)
    assert result.ok, result
    assert "p95" in result.content


@pytest.mark.xdist_group("crowds")  # the kernel counts processes by user
def test_without_namespaces_two_that_keep_to_their_limits_do_not_meet(tmp_path: Path) -> None:
    """The kernel counts both together there, so each has room beside the other. A bomb may use that room up for as long
    as it takes to see it (ADR 0042)."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    limits = Limits(processes=20)
    first, second = (desk_of(tmp_path / name, CONFINED, limits) for name in ("a", "b"))
    crowd = "import subprocess, time\ntime.sleep({})\nkept = [subprocess.Popen(['sleep', '4']) for _ in range(15)]\n"
    crowd += "[one.wait() for one in kept]"
    found: list[ToolResult] = []

    def later() -> None:
        found.append(second.run("run_command", argv=["python3", "-c", crowd.format(0)], timeout_s=60))

    beside = threading.Timer(1, later)
    beside.start()
    found.append(first.run("run_command", argv=["python3", "-c", crowd.format(2.5)], timeout_s=60))
    beside.join()
    assert [result.ok for result in found] == [True, True], found


REFERRED = {
    "own pages to a pipe": (
        "kept = ctypes.create_string_buffer(b'x')\nwords = (ctypes.c_void_p * 2)(ctypes.addressof(kept), 1)\n"
        "if libc.vmsplice(os.pipe()[1], words, 1, 0) < 0: raise OSError(ctypes.get_errno(), 'vmsplice')\n"
    ),
    "pages of a file to a pipe": "os.splice(gone, os.pipe()[1], 1, offset_src=0)\n",
    "pages of a file through a pipe": "os.sendfile(os.pipe()[1], gone, 0, 1)\n",
    "pages of a file to a socket": "pair = socket.socketpair()\nos.sendfile(pair[0].fileno(), gone, 0, 1)\n",
    "own pages to a connection": "socket.socket().setsockopt(socket.SOL_SOCKET, 60, 1)\n",
    "more pages to a pipe": "import fcntl\nfcntl.fcntl(os.pipe()[1], fcntl.F_SETPIPE_SZ, 1 << 20)\n",
}
GONE = "import os\ngone = os.open('_', os.O_RDWR | os.O_CREAT)\nos.unlink('_'); os.write(gone, bytes(2 << 20))\n"


@BOTH
@pytest.mark.parametrize("kind", REFERRED)
def test_pages_are_not_handed_over_by_reference(tmp_path: Path, level: int, kind: str) -> None:
    """A pipe or a socket holds the huge page that a byte of it lies in, and nobody's memory shows it."""
    code = f"{LIBC}{GONE}{REFERRED[kind]}os.ftruncate(gone, 0); print('handed over', flush=True)"
    words = [sys.executable, "-c", code]
    outside = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "handed over" in outside.stdout, "as it is elsewhere"
    said = desk_of(tmp_path, level).run("run_command", argv=["python3", "-c", code])
    assert "Error" in said.content, said
    assert "handed over" not in said.content


@BOTH
def test_a_socket_has_no_larger_buffer_than_it_is_counted_by(tmp_path: Path, level: int) -> None:
    """Who asks for one goes on with less, as where the machine gives less."""
    code = (
        "import socket\none, _ = socket.socketpair()\n"
        "for option in (socket.SO_SNDBUF, socket.SO_RCVBUF): one.setsockopt(socket.SOL_SOCKET, option, 1 << 30)\n"
        "one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)\n"
        "assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 'other options are set'\n"
        "print(*(one.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)))\n"
    )
    result = desk_of(tmp_path, level).run("run_command", argv=["python3", "-c", code])
    assert result.ok, result
    assert all(int(size) <= 416 * KIB for size in result.content.split()[-2:]), result


COPIES = """
set -eu
head -c 3000000 /dev/urandom > large
cat large > by-cat; cat large | cat | cat > by-pipes; cp large by-cp; cp -a by-cp by-archive
tee < large by-tee > by-both
install -m 600 large by-install; dd if=large of=by-dd bs=64k status=none; tar -cf - large | tar -xOf - > by-tar
mkdir folder
python3 -c 'import shutil; shutil.copyfile("large", "by-shutil"); shutil.copy("large", "folder")'
python3 -c 'import shutil; shutil.copytree("folder", "tree")'
python3 -c '
import socket, threading
server = socket.create_server(("127.0.0.1", 0)) if {connections} else None
ours, theirs = (socket.create_connection(server.getsockname()), server.accept()[0]) if server else socket.socketpair()
def send():
    with open("large", "rb") as file, ours: ours.sendfile(file)
threading.Thread(target=send).start()
with open("by-socket", "wb") as file:
    while piece := theirs.recv(65536): file.write(piece)
'
for copy in by-* tree/large; do cmp large "$copy"; done
git init -q one && cp large one && git -C one add large
git -C one -c user.name=a -c user.email=a@b commit -qm one && git clone -q one two && cmp large two/large
echo "all the same"
"""


@BOTH
def test_ordinary_programs_copy_as_ever(tmp_path: Path, level: int) -> None:
    """Who would hand pages over is told that it does not work with these files, and reads and writes them."""
    result = desk_of(tmp_path, level, Limits()).shell(COPIES.format(connections=level == FULL), timeout_s=60)
    assert result.ok, result
    assert "all the same" in result.content


BOXES = """boxes = [socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(20)]
for n, box in enumerate(boxes): box.bind(f'box{n}')
"""
"""A few sockets that take messages, as loggers do."""
CLIENTS = """import asyncio
async def serve(reader, writer):
  await reader.readline(); writer.write(bytes(1 << 20))
  await writer.drain(); writer.close()
async def ask(place):
  reader, writer = await asyncio.{connect}
  writer.write(b'x\\n'); size = len(await reader.read()); writer.close(); return size
async def main():
  server = await asyncio.{listen}
  place = server.sockets[0].getsockname()
  for _ in range(5): print(sum(await asyncio.gather(*(ask(place) for _ in range(100)))) >> 20, flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("before", "listen", "connect"),
    [
        ("", "start_server(serve, '127.0.0.1', 0)", "open_connection(*place)"),
        (BOXES, "start_unix_server(serve, 'server')", "open_unix_connection(place)"),
    ],
    ids=["network", "local"],
)
def test_a_server_and_its_many_clients_work(tmp_path: Path, before: str, listen: str, connect: str) -> None:
    """Connections count by what waits in them: a hundred at once, each with a megabyte, are ordinary."""
    code = "import socket\n" + before + CLIENTS.format(listen=listen, connect=connect)
    result = desk_of(tmp_path, FULL, Limits()).run("run_command", argv=["python3", "-c", code], timeout_s=60)
    assert result.ok, result
    assert result.content.split().count("100") == 5, result
