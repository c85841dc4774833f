"""The tool access service: registry, access matrix, judging and execution (SPEC I1-I3)."""
