"""Telling people elsewhere that a gate waits (SPEC Q8): not built yet."""
