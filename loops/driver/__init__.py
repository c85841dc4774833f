"""The only place where the engine meets the world: one module for each kind of effect. No framework here."""

from loops.driver.driver import Driver
from loops.driver.interrupts import Interrupted
from loops.driver.ports import Ports
from loops.driver.tool_calls import idempotency_key

__all__ = ["Driver", "Interrupted", "Ports", "idempotency_key"]
