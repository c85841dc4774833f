"""Does the result hold? Checks, what they lack, and the diagnosis of those that failed (SPEC L1, L2, M4)."""
