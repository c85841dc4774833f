"""Addresses of the pages."""

from __future__ import annotations

from django.urls import path

from loops.web import (
    breakers,
    circles,
    curve,
    files,
    forks,
    overview,
    palette,
    rollback,
    run,
    runs,
    steering,
    system,
    tasks,
    tools,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("badge/", palette.badge, name="badge"),
    path("find/", palette.find, name="find"),
    path("runs/", runs.runs, name="runs"),
    path("runs/bulk/", steering.bulk, name="runs-bulk"),
    path("runs/<uuid:run_id>/", run.timeline, name="run"),
    path("runs/<uuid:run_id>/earlier/", run.earlier, name="run-earlier"),
    path("runs/<uuid:run_id>/steps/<int:number>/", run.step, name="run-step"),
    path("runs/<uuid:run_id>/gates/<uuid:gate_id>/", run.gate, name="run-gate"),
    path("runs/<uuid:run_id>/detections/", circles.banner, name="run-detections"),
    path("runs/<uuid:run_id>/lifecycle/", run.lifecycle, name="run-lifecycle"),
    path("runs/<uuid:run_id>/curve/", curve.curve, name="run-curve"),
    path("runs/<uuid:run_id>/files/", files.files, name="run-files"),
    path("runs/<uuid:run_id>/output/<str:sha256>/", files.output, name="run-output"),
    path("runs/<uuid:run_id>/conversation/", files.conversation, name="run-conversation"),
    path("runs/<uuid:run_id>/provenance/", files.provenance, name="run-provenance"),
    path("runs/<uuid:run_id>/provenance/verify/", files.verify, name="run-verify"),
    path("runs/<uuid:run_id>/provenance/export.json", files.export, name="run-export"),
    path("runs/<uuid:run_id>/raw/", files.raw, name="run-raw"),
    path("runs/<uuid:run_id>/fork/", forks.fork, name="run-fork"),
    path("runs/<uuid:one_id>/compare/<uuid:other_id>/", forks.compare, name="run-compare"),
    path("runs/<uuid:run_id>/steer/", steering.steer, name="run-steer"),
    path("runs/<uuid:run_id>/rollback/", rollback.rollback, name="run-rollback"),
    path("runs/<uuid:run_id>/message/", steering.message, name="run-message"),
    path("tasks/new/", tasks.new, name="new-task"),
    path("tasks/new/preview/", tasks.preview, name="task-preview"),
    path("tools/", tools.tools, name="tools"),
    path("system/", system.system, name="system"),
    path("system/live/", system.live, name="system-live"),
    path("system/breakers/", breakers.breakers, name="breakers"),
    path("system/breakers/live/", breakers.live, name="breakers-live"),
    path("system/breakers/reset/", breakers.reset, name="breaker-reset"),
]
