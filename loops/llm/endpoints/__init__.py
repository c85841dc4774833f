"""Where models answer: addresses and the keys that may go there, connections, timeouts, windows (SPEC S3, E6, U1)."""
