"""What test runners load to report single tests: copied to where they run, and never imported here (ADR 0078)."""
