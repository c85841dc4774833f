"""None: no command decides."""
