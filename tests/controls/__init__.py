"""Negative controls (`make controls`): every guard is switched off once, and a test of it has to fail.

``guards`` holds the tables of guards, ``mutations`` says what becomes of one, ``switch`` turns one off, ``proof`` runs
its tests with it and without it.
"""
