"""Provenance: an immutable, content-addressed record for every committed result, in one chain (SPEC N1).

The record covers: task, plan hash, evidence references, tool invocations, repair history, verification scores,
model ids, time and approver, plus the head of the run's own journal, so that changing either breaks the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from loops.crash_points import CrashPoint, reach
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import to_plain
from loops.engine.ports import Within
from loops.engine.state.run import RunState
from loops.engine.values import Json
from loops.storage import lineage

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('loops_provenancerecord'))"
_LAST = "SELECT hash FROM loops_provenancerecord ORDER BY number DESC LIMIT 1"
_TOOLS = (
    "SELECT call_id, tool, idempotency_key, ok, output_sha256, gate_id FROM loops_toolcallrecord "
    "WHERE run_id = %s AND state = 'COMPLETE' ORDER BY step_number, position"
)
_MODELS = "SELECT DISTINCT provider, model_id FROM loops_modelcall WHERE run_id = %s ORDER BY 1, 2"
_HEAD = "SELECT head_seq, head_hash FROM agent_execution_history WHERE id = %s"
_STARTED = "SELECT hash, body FROM loops_fact WHERE run_id = %s AND seq = 1"
_TEXTS = "SELECT seq, body FROM loops_fact WHERE run_id = %s AND kind = 'TextsChanged' ORDER BY seq"
_INSERT = (
    "INSERT INTO loops_provenancerecord (run_id, body, prev, hash, created_at) VALUES (%s, %s, %s, %s, %s) "
    "ON CONFLICT (run_id) DO NOTHING"
)


class PgArchive:
    """Port Archive on Postgres."""

    def commit(self, state: RunState, report: Mapping[str, Json], at: int) -> Within:
        return lambda cursor: _write(cursor, state, report, at)


def _write(cursor: Any, state: RunState, report: Mapping[str, Json], at: int) -> None:
    run_id = state.spec.run_id
    body = canonical.encode(_record(cursor, state, report, at))
    cursor.execute(_LOCK)  # last of all: every other run that ends waits for it
    last = cursor.execute(_LAST).fetchone()
    prev = bytes(last[0]) if last else b""
    digest = hashlib.sha256(prev + body).digest()
    reach(CrashPoint.IN_PROVENANCE)
    cursor.execute(_INSERT, [run_id, body, prev, digest, datetime.fromtimestamp(at / 1e6, UTC)])


def _record(cursor: Any, state: RunState, report: Mapping[str, Json], at: int) -> dict[str, Any]:
    spec, run_id = state.spec, state.spec.run_id
    head_seq, head_hash = cursor.execute(_HEAD, [run_id]).fetchone()
    started = cursor.execute(_STARTED, [run_id]).fetchone()
    tools = cursor.execute(_TOOLS, [run_id]).fetchall()
    models = cursor.execute(_MODELS, [run_id]).fetchall()
    texts = cursor.execute(_TEXTS, [run_id]).fetchall()
    return {
        "schema": 1,
        "task": {"id": spec.task_id, "goal_sha256": canonical.sha256(spec.goal), "project": spec.project_id},
        "run": run_id,
        "forked_from": lineage.line(cursor, run_id),
        "agent": to_plain(spec.agent),
        "plan_sha256": canonical.sha256({"loop": spec.loop, "nodes": [spec.goal]}),
        "evidence": [
            {"criterion": check.text, "level": check.evidence.value, "report": check.report}
            for check in state.checks or ()
            if check.evidence
        ],
        "weakest_evidence": report.get("evidence", ""),
        "levels": report.get("levels", {}),
        "tool_invocations": [
            {"call": call, "tool": tool, "key": key, "ok": ok, "output_sha256": out, "gate": str(gate) if gate else ""}
            for call, tool, key, ok, out, gate in tools
        ],
        "repairs": {"count": state.repairs, "causes": list(state.causes)},
        "verification": to_plain(state.checks or ()),
        "models": [{"provider": provider, "model_id": model_id} for provider, model_id in models],
        "result_sha256": canonical.sha256(report.get("result")),
        "report_sha256": canonical.sha256(report),
        "workspace": report.get("workspace", {}),
        "policy_version": spec.policy_version,
        "prompts": canonical.decode(started[1]).get("prompts", {}) if started else {},
        "prompts_changed": [{"seq": seq, "prompts": canonical.decode(body)["prompts"]} for seq, body in texts],
        "approver": state.approver,
        "committed_at": at,
        "journal": {
            "seq": head_seq,
            "head": bytes(head_hash).hex(),
            "first": bytes(started[0]).hex() if started else "",
        },
    }
