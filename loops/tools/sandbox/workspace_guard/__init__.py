"""A workspace before and after a command: what it may not change or leave behind (SPEC I7)."""
