"""How sure a run may be of itself: the score, its bands, what hedging costs, and when a person is asked (SPEC G2)."""
