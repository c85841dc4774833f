"""Pages and the live stream (SPEC R, T1)."""
