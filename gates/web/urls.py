"""Addresses of the review pages. Everything that changes something is a POST."""

from django.urls import path

from gates.web import views

urlpatterns = [
    path("review/", views.review, name="review"),
    path("review/list/", views.queue, name="review-list"),
    path("review/bulk/", views.bulk, name="review-bulk"),
    path("review/decisions.jsonl", views.export, {"form": "jsonl"}, name="decisions-jsonl"),
    path("review/decisions.csv", views.export, {"form": "csv"}, name="decisions-csv"),
    path("review/<uuid:gate_id>/", views.review, name="gate"),
    path("review/<uuid:gate_id>/state/", views.state, name="gate-state"),
    path("review/<uuid:gate_id>/file/", views.changed_file, name="gate-file"),
    path("review/<uuid:gate_id>/decide/", views.decide, name="gate-decide"),
    path("review/<uuid:gate_id>/take-back/", views.take_back, name="gate-take-back"),
    path("review/<uuid:gate_id>/claim/", views.claim, name="gate-claim"),
]
