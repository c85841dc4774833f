"""What Django needs to find the commands."""
