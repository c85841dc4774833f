"""The pure heart of AgentOps: no Django, no I/O, no clock, no randomness (architecture#engine)."""
