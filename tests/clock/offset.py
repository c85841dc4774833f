"""The file that all processes of a run read their clock's offset from (``struct shared`` of ``shift.c``)."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "CLOCK_OFFSET"
_OFFSET = struct.Struct("=q")


@dataclass(frozen=True)
class Offset:
    """In nanoseconds."""

    file: Path

    @staticmethod
    def of_this_run() -> Offset:
        return Offset(Path(os.environ[VARIABLE]))

    def begin(self, offset: int) -> None:
        """Files that change from now on belong to the run. Processes of other users read it too."""
        self.file.write_bytes(_OFFSET.pack(offset) + _OFFSET.pack(time.time_ns()))
        self.file.chmod(0o644)

    def read(self) -> int:
        return int(_OFFSET.unpack_from(self.file.read_bytes())[0])

    def move(self, by: int) -> None:
        """All clocks jump, at once: the bytes change where the processes have mapped them."""
        with self.file.open("r+b") as file:
            file.write(_OFFSET.pack(self.read() + by))
