"""The project package: settings, entry points and the one-command stack."""

__version__ = "0.1.0"
