"""Connections to models go where they were allowed to go (SPEC S3): judged when they are made, by the address that is
connected to, and an answer never leads a key to another server.

Behind a proxy of the environment the proxy resolves names, and has to judge them.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address
from typing import Any

import httpcore2
import httpx2

from loops.llm.endpoints.addresses import is_inward, is_never_a_model


class AddressRefused(httpx2.ConnectError):
    """Not connected: this address is not allowed to this model. The message says it to people."""


class RedirectRefused(httpx2.ConnectError):
    """Not followed: the answer names another server."""


@cache
def trusted() -> ssl.SSLContext:
    """What servers are known by, for every client of this process: to read it takes 20 ms of a processor."""
    return httpx2.create_ssl_context()


def guard(client: httpx2.AsyncClient | httpx2.Client, *, inward: bool) -> None:
    """Let ``client`` connect to addresses outside alone; ``inward`` allows this machine and its networks too."""
    pool: Any = client._transport._pool  # type: ignore[attr-defined]  # no public way to the resolved address
    wrap = _AsyncVetted if isinstance(client, httpx2.AsyncClient) else _Vetted
    pool._network_backend = wrap(pool._network_backend, inward)


async def stay(response: httpx2.Response) -> None:
    """Hook for answers: follow no redirect to another server. Headers with keys would go along."""
    if response.has_redirect_location and (there := _elsewhere(response)):
        raise RedirectRefused(f"the server sends us on to {there}, which gets no key: give the model that address")


def _elsewhere(response: httpx2.Response) -> str:
    here = response.request.url
    try:
        there = here.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return "an address that is none"
    same = (there.scheme, there.host, _port(there)) == (here.scheme, here.host, _port(here))
    return "" if same else f"{there.scheme}://{there.host}"


def _port(url: httpx2.URL) -> int | None:
    return url.port or {"https": 443, "http": 80}.get(url.scheme)


def allowed(host: str, found: Iterable[Any], *, inward: bool) -> list[str]:
    """The addresses of what a look-up found. Raises AddressRefused where one of them may not be connected to."""
    addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    for address in map(ip_address, addresses):
        if is_never_a_model(address) or (is_inward(address) and not inward):
            raise AddressRefused(
                f"{host} leads to {address}, which is no public address: a superuser can allow it for this model in "
                "Admin, Models"
            )
    return addresses


class _AsyncVetted(httpcore2.AsyncNetworkBackend):
    def __init__(self, backend: httpcore2.AsyncNetworkBackend, inward: bool) -> None:
        self._backend, self._inward = backend, inward

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, **more: Any) -> Any:
        """Look up once, judge, and connect to what was judged."""
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        last: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in allowed(host, found, inward=self._inward):
            try:
                return await self._backend.connect_tcp(address, port, timeout=timeout, **more)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last

    async def connect_unix_socket(self, path: str, **more: Any) -> Any:
        """No model is asked through one."""
        raise AddressRefused(f"{path} is no address of a model")

    async def sleep(self, seconds: float) -> None:
        """As the backend does."""
        await self._backend.sleep(seconds)


class _Vetted(httpcore2.NetworkBackend):
    def __init__(self, backend: httpcore2.NetworkBackend, inward: bool) -> None:
        self._backend, self._inward = backend, inward

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **more: Any) -> Any:
        """Look up once, judge, and connect to what was judged."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        last: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in allowed(host, found, inward=self._inward):
            try:
                return self._backend.connect_tcp(address, port, timeout=timeout, **more)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last

    def connect_unix_socket(self, path: str, **more: Any) -> Any:
        """No model is asked through one."""
        raise AddressRefused(f"{path} is no address of a model")

    def sleep(self, seconds: float) -> None:
        """As the backend does."""
        self._backend.sleep(seconds)
