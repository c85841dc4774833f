"""How people and programs get in: the first account, log-in links, wrong passwords and tokens that wait (SPEC S4)."""
