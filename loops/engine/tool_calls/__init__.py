"""Tool calls: the call cycle that every strategy shares, their titles, and a turn without one (SPEC B2, X6)."""
