"""The folder a run works in: whose it may be, what we may do there, its copies, and what became of it."""
