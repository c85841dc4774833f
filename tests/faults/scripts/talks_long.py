"""An answer that takes minutes."""

from loops.llm.scripted.adapter import Turn, script

SCRIPT = script("talks_long", [Turn(text="and then " * 4000)], summary="Talks.")
