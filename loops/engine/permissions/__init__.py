"""Calls that the tool access service denies, and what follows (SPEC I4)."""
