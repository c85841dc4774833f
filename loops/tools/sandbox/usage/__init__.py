"""What a command uses up, and which of its ceilings it met (SPEC I7)."""
