"""Limits of a run: the guards that hold them, the policy above them, and how complex a task looks (SPEC D1, D2, D3)."""
