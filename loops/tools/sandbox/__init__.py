"""Commands and files held inside a workspace, and the probes that prove it (SPEC I7)."""
