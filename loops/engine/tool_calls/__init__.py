"""Tool calls: on their way, their titles, those written as XML, and a turn without one (SPEC B2, X6)."""
