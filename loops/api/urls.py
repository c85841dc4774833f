"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from loops.api import (
    breakers,
    configuration,
    conversations,
    forks,
    patches,
    preflights,
    repository_files,
    setups,
    tokens,
    views,
)
from loops.api.endpoint import Router

router = Router(root=True)
router.register("projects", views.Projects, basename="project")
router.register("agents", configuration.Agents, basename="agent")
router.register("models", configuration.Models, basename="model")
router.register("workspaces", configuration.Workspaces, basename="workspace")
router.register("access-rules", configuration.AccessRules, basename="access-rule")
router.register("policies", configuration.Policies, basename="policy")
router.register("tasks", views.Tasks, basename="task")
router.register("runs", views.Runs, basename="run")
router.register("breakers", breakers.Breakers, basename="breaker")

urlpatterns = [
    path("me/", views.Me.as_view(), name="me"),
    path("me/token/", tokens.MyToken.as_view(), name="my-token"),
    path("me/token/<uuid:pk>/", tokens.OneToken.as_view(), name="one-token"),
    path("preflights/", preflights.Preflights.as_view(), name="preflights"),
    path("preflights/<uuid:pk>/", preflights.OnePreflight.as_view(), name="preflight"),
    path("workspaces/<uuid:pk>/setup/", setups.WorkspaceSetup.as_view(), name="workspace-setup-of"),
    path("workspaces/<uuid:pk>/toml/", repository_files.WorkspaceToml.as_view(), name="workspace-toml-of"),
    path("runs/<uuid:pk>/fork/", forks.ForkRun.as_view(), name="run-fork"),
    path("runs/<uuid:pk>/compare/<uuid:other>/", forks.CompareRuns.as_view(), name="run-compare"),
    path("runs/<uuid:pk>/conversation/", conversations.Conversation.as_view(), name="run-told"),
    path("runs/<uuid:pk>/conversation/<int:seq>/", conversations.LeftOut.as_view(), name="run-untold"),
    path("runs/<uuid:pk>/requests/<int:sent>/", conversations.AsSent.as_view(), name="run-sent"),
    path("runs/<uuid:pk>/curve/", conversations.Curve.as_view(), name="run-course"),
    path("runs/<uuid:pk>/patch/", patches.RunPatch.as_view(), name="run-patch-of"),
    path("runs/<uuid:pk>/apply/", patches.ApplyRun.as_view(), name="run-apply-of"),
    path("runs/<uuid:pk>/commit/", patches.CommitRun.as_view(), name="run-commit-of"),
    path("runs/<uuid:pk>/push/", patches.PushRun.as_view(), name="run-push-of"),
    path("runs/<uuid:pk>/pull-request/", patches.PullRequestText.as_view(), name="run-pull-request-of"),
    path("runs/<uuid:pk>/output/<str:sha256>/", conversations.WholeOutput.as_view(), name="run-whole-output"),
    *router.urls,
]
