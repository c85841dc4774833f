"""What a run left behind: changed files, the record of its origin, and the facts themselves."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from loops.engine.encoding import canonical
from loops.models import Artifact, Fact, ProvenanceRecord, Run, ToolCallRecord
from loops.services import delivery
from loops.services.prompts import prompt_names, prompt_versions
from loops.storage import chain, reader
from loops.web import access, diffs
from loops.web.delivery import pull_request
from loops.web.run import page
from loops.workspaces import changed_files, patch
from loops.workspaces.changed_files import ChangedFile
from loops.workspaces.copies import where

RAW_PAGE = 100
ARTIFACTS = 100


@dataclass(frozen=True, slots=True)
class Edit:
    """What one call did to a file: its diff, or what the journal tells of it."""

    step: int
    tool: str
    file: diffs.FileDiff | None = None
    recorded: ChangedFile | None = None


@dataclass(slots=True)
class ChangedPath:
    """A file with what became of it (``net``; None when it is as it was, or nothing is ``known`` of that)."""

    path: str
    net: ChangedFile | None = None
    files: list[diffs.FileDiff] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    known: bool = True

    @property
    def executed_by(self) -> str:
        """Whose programs run or obey it, "" for most."""
        return self.net.executed_by if self.net is not None else ""

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files or self._edited)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files or self._edited)

    @property
    def is_one_edit(self) -> bool:
        """Is the only edit's diff all there is to see?"""
        return len(self.edits) == 1 and self.edits[0].file is not None

    @property
    def _edited(self) -> list[diffs.FileDiff]:
        return [edit.file for edit in self.edits if edit.file is not None]


@login_required
@never_cache
@require_safe
def files(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """What became of each file, and every change on the way there (SPEC R4)."""
    run = access.run_or_404(request, run_id)
    recorded = changed_files.recorded(run)
    found: dict[str, ChangedPath] = {}
    for file in changed_files.compared(recorded.net):
        found[file.path] = ChangedPath(file.path, file, diffs.parse(file.diff))
    for path, edit in _edits(run, recorded):
        found.setdefault(path, ChangedPath(path, known=bool(recorded.by_call))).edits.append(edit)
    left = Artifact.objects.filter(run=run).order_by("-seq")
    artifacts = list(left[: ARTIFACTS + 1])
    more = {
        "changed": sorted(found.values(), key=lambda one: (not one.executed_by, one.path)),
        "unknown": recorded.unknown,
        "others": recorded.others,
        "where": where(run),
    }
    more |= {"added": sum(one.added for one in found.values()), "removed": sum(one.removed for one in found.values())}
    more |= {
        "can_apply": delivery.can_be_written(run),
        "can_push": delivery.can_be_pushed(run),
        "orders": delivery.latest(run),
        "delivered": delivery.done(run),
        "pull_request": pull_request(run),
    }
    more |= {"artifacts": artifacts[:ARTIFACTS], "all": left.count() if len(artifacts) > ARTIFACTS else 0}
    return render(request, "loops/run_files.html", page(request, run, "run-files", **more))


def _edits(run: Run, recorded: changed_files.Recorded) -> Iterator[tuple[str, Edit]]:
    """Path and edit, call by call: with the diff that its tool reported, else in the words of the journal."""
    changed = Q(data__has_key="diff") | Q(call_id__in=list(recorded.by_call))
    calls = ToolCallRecord.objects.filter(changed, run=run, ok=True).order_by("step_number", "position")
    for number, tool, call_id, data in calls.values_list("step_number", "tool", "call_id", "data"):
        reported = diffs.of_data(data or {})
        for file in reported:
            yield file.path, Edit(number, tool, file)
        for file in () if reported else recorded.by_call.get(call_id, ()):
            yield file.path, Edit(number, tool, recorded=file)


@login_required
@never_cache
@require_safe
def download_patch(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """What the run changed, for ``git am`` and ``git apply``."""
    run = access.run_or_404(request, run_id)
    try:
        found = patch.of(run)
    except patch.NoPatch as refusal:
        messages.error(request, str(refusal))
        return redirect("run-files", run_id=run.pk)
    return HttpResponse(found.message, headers=patch.download(run))


@login_required
@require_safe
def output(request: HttpRequest, run_id: uuid.UUID, sha256: str) -> StreamingHttpResponse:
    """The whole of an artifact, as a download: whatever it holds, a browser does not run it."""
    run = access.run_or_404(request, run_id)
    artifact = Artifact.objects.filter(run=run, sha256=sha256).first()
    if artifact is None:
        raise Http404
    try:
        response = StreamingHttpResponse(reader.blob(sha256), content_type="application/octet-stream")
    except reader.MissingBlob:
        raise Http404 from None
    safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in artifact.name)[-80:] or "output"
    response["Content-Disposition"] = f'attachment; filename="{safe}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


@login_required
@never_cache
@require_safe
def provenance(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Where a result comes from (SPEC N1)."""
    run = access.run_or_404(request, run_id)
    record = ProvenanceRecord.objects.filter(run=run).first()
    body = canonical.clean_json(canonical.decode(bytes(record.body))) if record else None
    more = {"record": record, "body": body, "hash": bytes(record.hash).hex() if record else ""}
    more["prompts"] = _prompts(run)
    return render(request, "loops/run_provenance.html", page(request, run, "run-provenance", **more))


def _prompts(run: Run) -> dict[str, Any]:
    """The templates that the run is asked with and told, and whether they still read the same (SPEC U3): those that
    models are asked with, those that the loop itself says, and what other versions changed on the way."""
    rows = Fact.objects.filter(run=run, kind__in=("RunStarted", "TextsChanged")).order_by("seq")
    bodies = [(seq, canonical.decode(bytes(body))) for seq, body in rows.values_list("seq", "body")]
    started = bodies[0][1] if bodies else {}
    today, asked = prompt_versions(), prompt_names()
    used = str(started.get("prompt_version", "")).partition(":")[0]

    def shown(body: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"name": name, "sha256": sha256, "used": name == used, "same": today.get(name) == sha256}
            for name, sha256 in sorted(body.get("prompts", {}).items())
        ]

    known = shown(started)
    said = [one for one in known if one["name"] not in asked]
    return {
        "asked": [one for one in known if one["name"] in asked],
        "said": said,
        "said_changed": sum(not one["same"] for one in said),
        "changed": [(seq, shown(body)) for seq, body in bodies[1:]],
    }


@login_required
@require_POST
def verify(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Recompute every hash of the run's journal and of its record. The anchor, for which all seals are read, is left to
    ``verify_chain``."""
    run = access.run_or_404(request, run_id)
    outcome = chain.verify(run.pk)
    if request.headers.get("HX-Request"):
        return render(request, "loops/_verified.html", {"outcome": outcome, "run": run})
    record = ProvenanceRecord.objects.filter(run=run).first()
    return render(
        request, "loops/run_provenance.html", page(request, run, "run-provenance", record=record, outcome=outcome)
    )


@login_required
@never_cache
@require_safe
def export(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The record as JSON, with the hashes that bind it."""
    run = access.run_or_404(request, run_id)
    record = get_object_or_404(ProvenanceRecord, run=run)
    hashes = {"number": record.number, "prev": bytes(record.prev).hex(), "hash": bytes(record.hash).hex()}
    whole = {**hashes, "record": canonical.clean_json(canonical.decode(bytes(record.body)))}
    response = HttpResponse(json.dumps(whole, indent=2, ensure_ascii=False), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="provenance-{run.pk}.json"'
    return response


@login_required
@never_cache
@require_safe
def raw(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The facts themselves, page by page."""
    run = access.run_or_404(request, run_id)
    after = _number(request.GET.get("after", ""))
    facts = reader.raw(run.pk, after, RAW_PAGE)
    more = {"facts": facts, "after": after, "next": facts[-1]["seq"] if len(facts) == RAW_PAGE else 0}
    more["previous"] = max(0, after - RAW_PAGE) if after else None
    return render(request, "loops/run_raw.html", page(request, run, "run-raw", **more))


def _number(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 16 else 0
