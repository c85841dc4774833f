"""Are keys and other secrets where they belong, and can they be kept out of what is stored? Checks of doctor."""

from __future__ import annotations

from agentops.ops.finding import OK, WARNING, Finding
from loops import masking
from loops.services import keys


def masked() -> Finding:
    """Secrets that are too short or too common to be masked."""
    named = masking.not_secrets()
    if weak := sorted({*masking.known().weak} - {*named}):
        todo = f"give them long random values, or name them in {masking.NOT_SECRETS} where they are no secrets"
        return WARNING, f"Too short or too common to be masked where they are shown: {', '.join(weak)}", todo
    said = f"Known secrets are masked: {len(masking.known().values)}"
    if named:
        said = f"{said}; none, says {masking.NOT_SECRETS}: {', '.join(named)}"
    return OK, said


def addresses() -> Finding:
    """Models that are not asked, because nobody who may allowed their address or their key."""
    refused = keys.refused()
    if not refused:
        return OK, "Every model may be asked where it is configured"
    said = "; ".join(f"{row.name}: {why.removesuffix(keys.TO_ALLOW).strip()}" for row, why in refused[:10])
    return WARNING, f"Models that are not asked ({len(refused)}): {said}", keys.TO_ALLOW
