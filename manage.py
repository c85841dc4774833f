#!/usr/bin/env python3
"""Django's command line for AgentOps."""

import sys

from agentops.command_line import run

if __name__ == "__main__":
    run(sys.argv)
