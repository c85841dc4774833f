"""The suite at other times (`make clock`).

``shift.c`` moves the clock of all processes, ``midnight`` begins each test just before one, and ``moved`` proves it.
"""
