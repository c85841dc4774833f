"""Money as people read it."""


def usd(micro: int) -> str:
    """Millionths of a dollar: cents, and more digits of less than a dollar where cents do not say it."""
    amount = micro / 1_000_000
    return f"${amount:,.{2 if amount >= 1 or not micro % 10_000 else 4}f}"
