"""JSON, canonical (RFC 8785), strict and by the schemas of others; values to plain JSON and back, fingerprints."""
