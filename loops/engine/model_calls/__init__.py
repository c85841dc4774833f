"""Calls to models: requests, answers, outages, and turns at a busy endpoint (SPEC C, E5, E6)."""
