"""Scripted coders that cheat, and honest ones: nothing wrong is committed unseen (``make adversary-coders``)."""
