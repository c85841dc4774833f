"""A fork: facts another run recorded, taken over as they stand, and a run that goes on from there (SPEC O3)."""
