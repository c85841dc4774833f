"""Keeping an installation: what to check, to back up, to restore and to prune (`docs/operations.md`)."""


class OpsError(Exception):
    """It cannot be done; the message says in one line why, and what to do."""
