"""A llama.cpp server as a process of its own: `python -m tests.llama.serving MODEL PORT WINDOW SLOTS`."""

from __future__ import annotations

import sys
import threading

import xllamacpp


def main() -> None:
    path, port, window, slots = sys.argv[1], *map(int, sys.argv[2:5])
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = window * slots
    params.n_parallel = slots
    params.endpoint_slots = True
    params.warmup = False
    params.verbosity = 3
    params.use_jinja = True
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
