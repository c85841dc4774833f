"""Limits of a run: what follows when one is near or reached, the policy above them, how complex a task is (SPEC D)."""
