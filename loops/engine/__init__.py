"""The pure heart of AgentOps: no Django, no I/O, no clock, no randomness (ARCHITECTURE: "two pure functions")."""
