"""Pure rules of gates: kinds, verdicts, roles, digests, payloads, expiry. No framework here."""
