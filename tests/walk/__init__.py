"""A walk through a real installation in a real browser: what `make walk` does."""


class WalkError(Exception):
    """Something is not as it should be; the message says what was expected and what was found."""
