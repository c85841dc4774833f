"""What people read on a page."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client
from django.urls import reverse


def page_of(root: Client, name: str, *args: Any, **query: Any) -> str:
    """The words of a page, without its marks and with single spaces."""
    page = root.get(reverse(name, args=args), query).content.decode()
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))
