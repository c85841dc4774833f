"""Read validated arguments with the right type; the schema has already said that they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loops.engine.values import Json


def text(arguments: Mapping[str, Json], name: str, default: str = "") -> str:
    value = arguments.get(name, default)
    return value if isinstance(value, str) else default


def whole(arguments: Mapping[str, Json], name: str, default: int) -> int:
    value = arguments.get(name, default)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def flag(arguments: Mapping[str, Json], name: str, *, default: bool = False) -> bool:
    value = arguments.get(name, default)
    return value if isinstance(value, bool) else default


def texts(arguments: Mapping[str, Json], name: str) -> tuple[str, ...]:
    value = arguments.get(name)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(item for item in value if isinstance(item, str))
    return ()


def objects(arguments: Mapping[str, Json], name: str) -> tuple[Mapping[str, Json], ...]:
    value = arguments.get(name)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(item for item in value if isinstance(item, Mapping))
    return ()


def schema(required: Sequence[str] = (), **properties: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters of a built-in tool: an object that allows nothing but ``properties``."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def string(description: str, **more: Json) -> dict[str, Json]:
    return {"type": "string", "description": description} | more


PATH = string("A path relative to the workspace, such as src/app.py.", minLength=1, maxLength=1024)
