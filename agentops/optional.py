"""Temporary: modules that are still being written. Goes away when they exist."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any


def exists(module: str) -> bool:
    """Tell whether a module can be imported, without hiding errors inside it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def attribute_of(module: str, name: str, *, default: Any) -> Any:
    """Value in a module that may not exist yet."""
    return getattr(import_module(module), name) if exists(module) else default
