"""Is an endpoint one of our own machines? What such a server can do at once decides how it is asked (SPEC E6), and a
public name that leads to one is not asked at all (SPEC S3).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

OWN = (".local", ".lan", ".internal", ".home.arpa", ".localhost", ".home", ".intranet")
Address = IPv4Address | IPv6Address
_NAT64 = ip_network("64:ff9b::/96")
_METADATA = (ip_address("169.254.169.254"), ip_address("fd00:ec2::254"), ip_address("100.100.100.200"))
"""Where clouds hand out the credentials of the machine."""


def is_private(url: str) -> bool:
    """An address of this machine or of a private network, or a name without a dot, as in a compose file.

    By name alone, without a look-up: a name server is neither asked nor trusted for it.
    """
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


def is_inward(address: Address) -> bool:
    """Does it lead to this machine or its networks, in whatever disguise of IPv6?"""
    meant = _meant(address)
    return not meant.is_global or meant.is_multicast


def is_of_this_machine(address: Address) -> bool:
    return _meant(address).is_loopback


def is_never_a_model(address: Address) -> bool:
    """Link-local, multicast, unspecified, and where clouds keep credentials: refused whoever allows it."""
    meant = _meant(address)
    return meant.is_link_local or meant.is_multicast or meant in _METADATA or int(meant) == 0


def _meant(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def origin(url: str) -> str:
    """What stands for the server behind an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()
