"""Keyset pagination: a page costs the same at the end of a long list as at its start."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination


class NewestFirst(CursorPagination):
    """By id, which sorts by time."""

    ordering = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200


class ByName(NewestFirst):
    """Short lists for people."""

    ordering = ("name", "id")


class BySteps(NewestFirst):
    """Steps of one run, first to last."""

    ordering = "step_number"


class ByCalls(NewestFirst):
    """Tool calls of one run, first to last."""

    ordering = ("step_number", "position", "id")
