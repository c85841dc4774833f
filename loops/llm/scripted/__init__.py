"""Scripted models, for the demonstration and for tests."""
