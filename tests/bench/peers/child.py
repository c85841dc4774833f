"""One peer in its own process: a login on the first line of stdin, then a number of steps a line; answers as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import asdict
from importlib.metadata import version

from tests.bench.work import Marks, probe


def main(name: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what an engine prints must not get between the answers
    login = json.loads(sys.stdin.readline())
    engine = importlib.import_module(f"tests.bench.peers.{name}")
    run, look = engine.ready(login), probe(**login)
    print(json.dumps({"version": version(engine.PACKAGE)}), file=answers)
    for line in sys.stdin:
        marks = Marks(int(line), look)
        run(marks)
        print(json.dumps(asdict(marks.took())), file=answers)
    answers.flush()
    os._exit(0)  # an engine's own threads need not be waited for


if __name__ == "__main__":
    main(sys.argv[1])
