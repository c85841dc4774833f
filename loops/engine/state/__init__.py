"""The state of a run: one frozen value, and the values that it is made of. Only reducers make a new one (SPEC J7)."""
