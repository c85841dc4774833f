"""Commands held inside a workspace, from start to end, and the probes that prove it (SPEC I7)."""
