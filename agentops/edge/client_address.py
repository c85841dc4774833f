"""Where a request comes from, at whatever door it is asked, and what all that come from there are counted by."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest

LONGEST = 100
"""Whatever a server says of its peer: an address has 45 characters at the most."""
ONE_HOME = 64
"""Bits of an IPv6 address that are given out: whoever has one has all below them, and could count as many."""


def of_request(request: HttpRequest) -> str:
    """The address behind a request of Django's."""
    return of_connection(str(request.META.get("REMOTE_ADDR", "")), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def of_connection(peer: str, forwarded_for: str) -> str:
    """The connection's own, or what the last of so many own proxies saw (``TRUSTED_PROXIES``).

    Whoever sends a request writes ``X-Forwarded-For`` as they like; only what own proxies added at its end is believed.
    Proxies add ports, brackets, or a word where they do not know; what is no address is as good as nothing said.
    """
    seen = [part.strip() for part in forwarded_for.split(",") if part.strip()]
    trusted: int = settings.TRUSTED_PROXIES
    believed = _address(seen[-trusted]) if 0 < trusted <= len(seen) else None
    return str(believed or _address(peer) or peer[:LONGEST])


def counted_of_request(request: HttpRequest) -> str:
    """What failures of whoever sent a request are counted by."""
    return counted(of_request(request))


def counted(address: str) -> str:
    """The address, and of IPv6 the first one of its network."""
    found = _address(address)
    if not isinstance(found, ipaddress.IPv6Address):
        return address
    return str(ipaddress.IPv6Network((found, ONE_HOME), strict=False).network_address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Without port, brackets, quotes and zone; an IPv4 address that is written as one of IPv6 is that of IPv4."""
    host = text.strip().strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found
