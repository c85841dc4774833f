"""Two tools: one declares that it only reads, the other what it does and that it cannot be undone."""

from __future__ import annotations

from agentops.sdk import (
    Access,
    Arguments,
    Danger,
    Reversibility,
    Tool,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSpec,
    schema,
    string,
)

_BALANCES = {"acme": 1200, "globex": -30}


async def _balance(arguments: Arguments, run: ToolRun) -> ToolResult:
    customer = str(arguments["customer"])
    if customer not in _BALANCES:
        return ToolResult(ok=False, content="", error=f"no customer {customer!r}; there are: {', '.join(_BALANCES)}")
    return ToolResult(ok=True, content=f"{customer}: {_BALANCES[customer]}")


async def _pay(arguments: Arguments, run: ToolRun) -> ToolResult:
    _BALANCES[str(arguments["customer"])] -= 900
    return ToolResult(ok=True, content="paid 900")


def register(registry: ToolRegistry) -> None:
    """The entry point: add every tool. The names must be free."""
    customer = schema(("customer",), customer=string("Whose account.", minLength=1))
    registry.add(
        Tool(
            ToolSpec(
                name="account_balance",
                description="The balance of a customer's account.",
                parameters=customer,
                operation="read",
                reversibility=Reversibility.PURE,
                danger=Danger.LOW,
                default_access=Access.ASK,
                retriable=True,
            ),
            _balance,
        )
    )
    # What is left out is taken at its worst: a person is asked before each call, and it cannot be undone.
    registry.add(Tool(ToolSpec(name="pay_invoice", description="Pay 900.", parameters=customer, operation="pay"), _pay))
