"""Each address of the API is behind the same door: found in the table of addresses, so that no new one is forgotten."""

from __future__ import annotations

import pytest
from django_filters import ModelChoiceFilter, ModelMultipleChoiceFilter
from rest_framework.renderers import BrowsableAPIRenderer

from loops.api.endpoint import Endpoint
from loops.api.filters import ScopedFilter
from loops.api.pagination import NewestFirst
from loops.api.parsers import StrictJSONParser
from loops.api.throttles import ReadThrottle, WriteThrottle
from tests.addresses import Address, addresses

DOORS = {address.path: address for address in addresses("api/")}
each = pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
pytestmark = pytest.mark.spec("X7")


def test_there_are_doors() -> None:
    assert len(DOORS) > 40


@each
def test_every_view_has_the_parser_the_pace_and_the_cursor_of_all(door: Address) -> None:
    view = door.api_view
    assert view is not None, f"{door.path} is no API view"
    assert issubclass(view, Endpoint), f"{view.__name__} is no Endpoint"
    actions = getattr(door.view, "initkwargs", {})
    assert actions.get("parser_classes", view.parser_classes) == [StrictJSONParser]
    assert actions.get("throttle_classes", view.throttle_classes) == [ReadThrottle, WriteThrottle]
    assert BrowsableAPIRenderer not in actions.get("renderer_classes", view.renderer_classes)
    cursor = actions.get("pagination_class", getattr(view, "pagination_class", None))
    assert cursor is None or issubclass(cursor, NewestFirst), f"{view.__name__} decodes cursors in a way of its own"


@each
def test_no_filter_looks_rows_up(door: Address) -> None:
    view, actions = door.api_view, getattr(door.view, "initkwargs", {})
    narrowed = actions.get("filterset_class", getattr(view, "filterset_class", None))
    assert not getattr(view, "filterset_fields", None), f"{view.__name__} needs a ScopedFilter"
    if narrowed is not None:
        assert issubclass(narrowed, ScopedFilter), f"{narrowed.__name__} is no ScopedFilter"
        asking = (ModelChoiceFilter, ModelMultipleChoiceFilter)
        assert not [name for name, one in narrowed.base_filters.items() if isinstance(one, asking)]
