"""What test runners report of single tests while a command runs, over a socket of the worker's (SPEC L1, ADR 0078)."""
