"""What every ability may ask of a state: how much of a limit is used, and how much fits into the window."""
