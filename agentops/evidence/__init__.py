"""Evidence that the database cannot take back (SPEC N1, ADR 0046).

- ``tables``: which tables only grow, and what identifies and dates their rows.
- ``sealing``: the clock gives every new row a seal, in one chain for each table.
- ``anchors``: the heads of those chains, signed, in a file of the state folder.
- ``keeping``: one round of the clock: seal, compare with the last anchor, write the next.
- ``verification``: rows against seals, seals against anchors, table by table.
"""
