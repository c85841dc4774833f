"""A tree in which the functions of a run raise: a check that passes there as well proves nothing (SPEC X4). Pure."""
