"""How a run begins, waits for its folder, changes hands, and ends."""
