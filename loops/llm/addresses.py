"""Is an endpoint one of our own machines? What such a server can do at once decides how it is asked (SPEC E6).

By name alone, without a look-up: a name server is neither asked nor trusted for it.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

OWN = (".local", ".lan", ".internal", ".home.arpa", ".localhost", ".home", ".intranet")


def is_private(url: str) -> bool:
    """An address of this machine or of a private network, or a name without a dot, as in a compose file."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    if not host:
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(OWN)
    return address.is_private or address.is_loopback or address.is_link_local


def origin(url: str) -> str:
    """What stands for the server behind an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
