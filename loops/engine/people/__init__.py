"""What people say to a run: decisions, messages, stop phrases, and whether a long task goes on (SPEC D4, Q4)."""
