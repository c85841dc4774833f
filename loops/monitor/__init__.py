"""The view from outside: a process of its own that watches live runs while workers hang or brokers are down (SPEC F2).

It asks the database what is new, in a fixed number of queries however many runs there are, remembers a little of each
run, and tells what it finds: to the run by mail, to people by a row, an entry of the audit log and a banner. It never
changes a run itself. ``sight`` reads, ``memory`` remembers, ``noticing`` judges (pure), ``telling`` writes.
"""
