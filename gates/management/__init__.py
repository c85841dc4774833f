"""What Django needs to find commands; no command decides."""
