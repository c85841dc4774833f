"""From a tool's schema to a form and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gates.web.arguments import PREFIX, Unreadable, fields, read
from tests.integration.gates.builders import SCHEMA

pytestmark = pytest.mark.spec("Q4")
texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"))


def view(**arguments: Any) -> dict[str, Any]:
    return {"parameters_schema": SCHEMA, "arguments": arguments}


def untouched(shown: dict[str, Any]) -> dict[str, str]:
    return {one.key: one.value for one in fields(shown)}


@given(
    path=texts,
    content=texts,
    mode=st.sampled_from(["overwrite", "append"]),
    lines=st.integers(),
    backup=st.booleans(),
    labels=st.lists(texts),
)
def test_a_form_nobody_touched_gives_the_same_arguments(**arguments: Any) -> None:
    assert read(view(**arguments), untouched(view(**arguments))) == arguments


def test_arguments_that_were_not_given_stay_away() -> None:
    assert read(view(path="a", content="b"), untouched(view(path="a", content="b"))) == {"path": "a", "content": "b"}


def test_controls_follow_the_schema() -> None:
    controls = {one.name: one.control for one in fields(view(path="a", content="b", extra={"x": 1}))}
    assert controls == {
        "path": "lines",
        "content": "lines",
        "mode": "choice",
        "lines": "number",
        "backup": "choice",
        "labels": "json",
        "extra": "json",
    }


@pytest.mark.parametrize(("given_text", "sent", "kept"), [("a\nb", "a\r\nb", "a\nb"), ("a\r\nb", "a\r\nb", "a\r\nb")])
def test_line_ends_stay_as_they_were(given_text: str, sent: str, kept: str) -> None:
    shown = view(path="p", content=given_text)
    assert read(shown, {f"{PREFIX}path": "p", f"{PREFIX}content": sent})["content"] == kept


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("lines", "many"),
        ("lines", "1.5"),
        ("lines", "true"),
        ("lines", "NaN"),
        ("backup", "maybe"),
        ("labels", "[1"),
        ("labels", '{"a":1,"a":2}'),
        ("labels", "[" * 100_000),
    ],
)
def test_what_cannot_be_read_is_an_error_at_its_field(name: str, typed: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read(view(path="p", content="c"), {f"{PREFIX}path": "p", f"{PREFIX}content": "c", f"{PREFIX}{name}": typed})
    assert list(caught.value.errors) == [f"arguments.{name}"]


@pytest.mark.parametrize("schema", [None, [], {"properties": []}, {"properties": {"a": True}}, {"required": "a"}])
def test_schema_of_any_shape_makes_a_form(schema: Any) -> None:
    assert [one.name for one in fields({"parameters_schema": schema, "arguments": {"a": 1}})] == ["a"]
