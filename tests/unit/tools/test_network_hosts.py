"""Which hosts a grant names: exact names and ports, no patterns, nothing that reads as two things (SPEC I7)."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from loops.tools.sandbox.network.hosts import MOST_HOSTS, Host, host, hosts
from loops.workspaces.networked import is_never_reached

pytestmark = pytest.mark.spec("I7")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pypi.org", Host("pypi.org")),
        (" PyPI.org. ", Host("pypi.org")),
        ("registry.example:8080", Host("registry.example", 8080)),
        ("nexus", Host("nexus")),
        ("10.0.0.5:80", Host("10.0.0.5", 80)),
        ("[fd00::5]:8443", Host("fd00::5", 8443)),
        ("my_registry.internal", Host("my_registry.internal")),
    ],
)
def test_a_host_is_a_name_and_a_port(text: str, found: Host) -> None:
    assert host(text) == found
    assert host(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        *("*", "*.org", "https://pypi.org", "pypi.org/simple", "pypi.org:0", "pypi.org:65536", "pypi.org:a", "a b"),
        *("user@pypi.org", "-x.org", "x-.org", "a..b", "[fd00::5", "fd00::5:1:2:3:4:5:6:7:8", "x" * 64, "é.org", ":80"),
        *("pypi.org\r\nX: y", "pypi.org:\uff18\uff10", "\0"),
    ],
)
def test_what_is_no_host_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no host: write its name"):
        host(text)


def test_each_once_and_not_too_many() -> None:
    assert hosts(["b.org", "a.org", "", "A.org:443"]) == (Host("a.org"), Host("b.org"))
    with pytest.raises(ValueError, match="too many"):
        hosts(f"h{number}.org" for number in range(MOST_HOSTS + 1))


@pytest.mark.parametrize(
    ("name", "address", "never"),
    [
        ("pypi.org", "151.101.0.223", False),
        ("registry.lan", "10.1.2.3", False),
        ("127.0.0.1", "127.0.0.1", False),
        ("localhost", "::1", False),
        ("pypi.org", "127.0.0.1", True),
        ("pypi.org", "::1", True),
        ("pypi.org", "::ffff:127.0.0.1", True),
        ("169.254.169.254", "169.254.169.254", True),
        ("pypi.org", "169.254.169.254", True),
        ("pypi.org", "0.0.0.0", True),
        ("pypi.org", "fe80::1", True),
    ],
)
def test_a_name_leads_to_this_machine_only_where_it_says_so(name: str, address: str, never: bool) -> None:
    assert is_never_reached(Host(name), ip_address(address)) is never
