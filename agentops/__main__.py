"""``python -m agentops VERB``, where no script is on the path."""

from agentops.command_line import main

main()
