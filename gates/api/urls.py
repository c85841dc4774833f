"""REST addresses of gates and decisions."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from gates.api.views import DecisionViewSet, GateViewSet, export

router = SimpleRouter()
router.register("gates", GateViewSet, basename="gate")
router.register("decisions", DecisionViewSet, basename="decision")
urlpatterns = [
    path("decisions/export.jsonl", export, {"form": "jsonl"}, name="api-decisions-jsonl"),
    path("decisions/export.csv", export, {"form": "csv"}, name="api-decisions-csv"),
    *router.urls,
]
