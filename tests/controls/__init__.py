"""Negative controls (`make controls`): every guard is switched off once, and a test of it has to fail.

``guards.md`` is the table of guards. ``guards`` reads it, ``switch`` turns one off, ``proof`` runs its tests with it
and without it.
"""
