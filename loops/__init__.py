"""Runs of agents: engine, tools, models, journal and pages."""
