"""Every address of the installation, read from the table that Django routes by: a walk over it meets new doors too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver


@dataclass(frozen=True)
class Address:
    """``path`` as it is written in the table, ``<uuid:run_id>`` and all."""

    path: str
    view: Any
    converters: dict[str, Any]

    @property
    def of_api(self) -> bool:
        return self.path.startswith("api/")

    @property
    def api_view(self) -> Any:
        """The class behind an address of the API, None behind a plain function."""
        return getattr(self.view, "cls", None)

    def filled(self, **values: Any) -> str:
        """The address with ``values`` in its places, by name, else by the name of the converter."""
        text = "/" + self.path
        for name, converter in self.converters.items():
            kind = next(key for key in KINDS if f"<{key}:{name}>" in text)
            text = text.replace(f"<{kind}:{name}>", str(values.get(name, values.get(kind, converter))))
        return text


KINDS = ("uuid", "int", "str", "slug", "path")


def addresses(under: str = "") -> list[Address]:
    """Those below ``under``; the admin's own pages, whose addresses are regular expressions, are left out."""
    found = [one for one in _walk(get_resolver(), "", {}) if one.path.startswith(under)]
    return [one for one in found if not one.path.startswith("admin/")]


def _walk(resolver: URLResolver, before: str, converters: dict[str, Any]) -> Iterator[Address]:
    for entry in resolver.url_patterns:
        path = before + str(entry.pattern)
        here = {**converters, **entry.pattern.converters}
        if isinstance(entry, URLPattern):
            yield Address(path.lstrip("/"), entry.callback, here)
        else:
            yield from _walk(entry, path, here)
