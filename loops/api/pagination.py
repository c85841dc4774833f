"""Keyset pagination: a page costs the same at the end of a long list as at its start."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """By id, which sorts by time."""

    ordering: str | tuple[str, ...] = "-id"  # type: ignore[assignment]
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        """A cursor that somebody wrote by hand is a bad request, not a crash."""
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, ValidationError, DataError) as error:
            raise NotFound(self.invalid_cursor_message) from error

    def decode_cursor(self, request: Any) -> Any:
        """The position comes back from the caller: Postgres knows no NUL."""
        cursor = super().decode_cursor(request)
        if cursor is not None and "\0" in str(cursor.position or ""):
            raise NotFound(self.invalid_cursor_message)
        return cursor


class ByName(NewestFirst):
    """Short lists for people."""

    ordering = ("name", "id")


class BySteps(NewestFirst):
    """Steps of one run, first to last."""

    ordering = "step_number"


class ByCalls(NewestFirst):
    """Tool calls of one run, first to last."""

    ordering = ("step_number", "position", "id")
