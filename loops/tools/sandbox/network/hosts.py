"""Which hosts a grant names: ``pypi.org`` (its port 443), or with a port, ``registry.example:8080`` (SPEC I7)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from loops.engine.text.truncation import shortened

HTTPS = 443
MOST_HOSTS = 50
LONGEST_NAME = 253
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, order=True)
class Host:
    """``name`` is a domain name in lower case, or an address; never a pattern."""

    name: str
    port: int = HTTPS

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port == HTTPS else f"{name}:{self.port}"

    @property
    def is_of_this_machine(self) -> bool:
        """By its very name. Any other name that leads here is not followed."""
        address = as_address(self.name)
        return self.name == "localhost" or (address is not None and address.is_loopback)


def hosts(lines: Iterable[str]) -> tuple[Host, ...]:
    """Those that people wrote, each once, in order of their names. Raises ValueError with a sentence for them."""
    found = sorted({host(line) for line in lines if line.strip()})
    if len(found) > MOST_HOSTS:
        raise ValueError(f"{len(found)} hosts are too many: {MOST_HOSTS} at most")
    return tuple(found)


def host(text: str) -> Host:
    """One of them. Raises ValueError."""
    given = text.strip().lower()
    name, port = split(given, HTTPS)
    name = name.rstrip(".")
    if not 0 < port < 65_536 or (as_address(name) is None and not is_name(name)):
        raise ValueError(
            f"{shortened(text.strip(), LONGEST_NAME)!r} is no host: write its name, such as pypi.org, or name:port"
        )
    return Host(name, port)


def is_name(text: str) -> bool:
    return 0 < len(text) <= LONGEST_NAME and all(_LABEL.fullmatch(label) for label in text.split("."))


def as_address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def split(authority: str, default: int) -> tuple[str, int]:
    """(name, port) of ``name``, ``name:port`` or ``[address]:port``; port 0 where it is none."""
    if authority.startswith("["):
        name, closed, rest = authority[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return "", 0
        port = rest[1:]
    else:
        name, _, port = authority.partition(":")
    if not port:
        return name, default
    return name, int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else 0
