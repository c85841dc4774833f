"""A walk through a real installation in a real browser: what `make smoke` does. Needs the development packages."""


class SmokeError(Exception):
    """Something is not as it should be; the message says what was expected and what was found."""
