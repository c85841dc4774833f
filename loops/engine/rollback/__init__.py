"""Undoing a run: which compensations, in which order, and what is left (SPEC O1-O3)."""
