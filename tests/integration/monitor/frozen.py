"""A worker that owns a run and is in the middle of a step; the test freezes it."""

import sys
import time
import uuid

import django

django.setup()

from loops.storage import journal  # noqa: E402 - Django first

held = journal.claim(uuid.UUID(sys.argv[1]), "frozen", float(sys.argv[2]))
sys.stdout.write("owned\n" if held else "taken\n")
sys.stdout.flush()
time.sleep(600)
