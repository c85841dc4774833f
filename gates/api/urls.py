"""REST addresses of gates and decisions."""

from django.urls import path

from gates.api.views import DecisionViewSet, Export, GateViewSet
from loops.api.endpoint import Router

router = Router()
router.register("gates", GateViewSet, basename="gate")
router.register("decisions", DecisionViewSet, basename="decision")
urlpatterns = [
    path("decisions/export.jsonl", Export.as_view(), {"form": "jsonl"}, name="api-decisions-jsonl"),
    path("decisions/export.csv", Export.as_view(), {"form": "csv"}, name="api-decisions-csv"),
    *router.urls,
]
