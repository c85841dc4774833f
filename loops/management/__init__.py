"""What the commands share: printing to a terminal, watching a run."""
