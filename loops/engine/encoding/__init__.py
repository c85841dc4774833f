"""Canonical bytes: JSON of RFC 8785, values to plain JSON and back, fingerprints, changed copies of frozen values."""
