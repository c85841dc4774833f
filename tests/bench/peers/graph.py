"""LangGraph: a model node and a tool node, the message list as state, PostgresSaver with sync durability."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from typing import Annotated, Any

import psycopg
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from psycopg.rows import dict_row
from typing_extensions import TypedDict

from tests.bench.work import ARGUMENTS, RESULTS, Marks

PACKAGE = "langgraph"
os.environ["LANGSMITH_TRACING"] = "false"


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def ready(login: dict[str, str]) -> Callable[[Marks], None]:
    # As PostgresSaver.from_conn_string connects.
    connection = psycopg.connect(**login, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    saver = PostgresSaver(connection)
    saver.setup()
    asked: list[Marks] = []

    def model(state: State) -> dict[str, Any]:
        number = asked[-1].ask()
        if number > asked[-1].steps:
            return {"messages": [AIMessage(content="done", id=f"end_{number}")]}
        call = {"id": f"call_{number}", "name": "lookup", "args": ARGUMENTS}
        return {"messages": [AIMessage(content="", id=f"answer_{number}", tool_calls=[call])]}

    def tool(state: State) -> dict[str, Any]:
        call = state["messages"][-1].tool_calls[0]["id"]
        content = RESULTS[len(state["messages"]) % 64]
        return {"messages": [ToolMessage(content=content, tool_call_id=call, id=f"result_{call}")]}

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tool" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tool", "model")
    app = graph.compile(checkpointer=saver)

    def run(marks: Marks) -> None:
        asked.append(marks)
        config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 2 * marks.steps + 10}
        ended = app.invoke({"messages": [("user", "go")]}, config, durability="sync")
        assert len(ended["messages"]) == 2 * marks.steps + 2

    return run
