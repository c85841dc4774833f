"""Recorded runs as the detectors see them: a window entry for each answer of the model (DATA: runs/*.jsonl.gz)."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loops.engine.encoding.fingerprints import action_mark, error_signature, outcome_mark, result_mark
from loops.engine.state.step_window import Seen
from loops.engine.values import ToolCall

EXTRACT = Path(__file__).parents[1] / "data" / "runs"


@dataclass(frozen=True)
class Trajectory:
    """``rewards`` is the score after each step, empty where the recording has none. ``won``: it did what was asked."""

    id: str
    task: str
    model: str
    won: bool
    steps: tuple[Seen, ...]
    rewards: tuple[float, ...]
    submitted: bool
    """Its score came only with the last word, "submit": the scores before it say nothing."""
    texts: tuple[tuple[str, str], ...] = ()
    """Of each step: what it called or said, and what came of it."""

    @property
    def half(self) -> str:
        """By the task, so that no task is in both."""
        return "tune" if hashlib.sha256(self.task.encode()).digest()[-1] % 2 else "report"


def read(folder: Path, name: str, *, measured: bool = False) -> list[Trajectory]:
    """The runs of one file. ``measured`` lets the steps know the score so far as their progress."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt") as lines:
        return [_trajectory(json.loads(line), measured) for line in lines]


def _trajectory(run: Mapping[str, Any], measured: bool) -> Trajectory:
    turns = list(_turns(run["turns"]))
    rewards = [float(result["reward"] or 0) for _, results in turns for result in results if "reward" in result]
    steps = []
    for number, (answer, results) in enumerate(turns, 1):
        best = max(rewards[:number], default=0.0) if measured else 0.0
        steps.append(_seen(number, answer, results, best, measured=measured))
    last = turns[-1][0].get("calls") or [] if turns else []
    return Trajectory(
        id=run["id"],
        task=run["task"] or run["id"],
        model=run["model"] or run["source"],
        won=_won(run["outcome"]),
        steps=tuple(steps),
        rewards=tuple(rewards),
        submitted=any(call["input"] == {"command": "submit"} for call in last),
        texts=tuple(_texts(answer, results) for answer, results in turns),
    )


def _turns(turns: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], list[Mapping[str, Any]]]]:
    """Every answer of the model with what came back."""
    position = 0
    while position < len(turns):
        answer, position, results = turns[position], position + 1, []
        if answer["role"] != "assistant":
            continue
        while position < len(turns) and turns[position]["role"] != "assistant":
            results.append(turns[position])
            position += 1
        yield answer, results


def _seen(
    number: int, answer: Mapping[str, Any], results: Sequence[Mapping[str, Any]], progress: float, *, measured: bool
) -> Seen:
    calls = [
        ToolCall("", call["name"], call["input"] if isinstance(call["input"], dict) else {"input": call["input"]})
        for call in answer.get("calls") or []
    ]
    said = [result["text"] or "" for result in results if result["role"] == "tool"]
    failed = next((r for r in results if r.get("is_error") or r.get("valid") is False), None)
    return Seen(
        step=number,
        action=action_mark(calls, answer["text"] or ""),
        outcome=outcome_mark(result_mark(text) for text in said),
        error=error_signature(calls[0].name, failed["text"] or "") if failed and calls else "",
        progress=progress,
        measured=measured,
    )


def _texts(answer: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    calls = [f"{call['name']} {json.dumps(call['input'], ensure_ascii=False)}" for call in answer.get("calls") or []]
    said = [result["text"] or "" for result in results if result["role"] == "tool"]
    return "\n".join(calls) or answer["text"] or "", "\n".join(said)


def _won(outcome: Mapping[str, Any]) -> bool:
    return outcome.get("reward") == 1.0 or outcome.get("success") is True or outcome.get("exit_status") == "submitted"
