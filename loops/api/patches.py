"""What a run changed, to carry elsewhere: the same patch as on its page and at the command line."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from loops.api.conversations import OfRun
from loops.api.endpoint import AsItIs
from loops.workspaces import patch


class RunPatch(OfRun):
    """The files that the run changed, as an e-mail for ``git am``, which ``git apply`` reads too."""

    content_negotiation_class = AsItIs

    @extend_schema(responses={(200, "text/x-patch"): OpenApiTypes.BINARY})
    def get(self, request: Request, pk: Any) -> HttpResponse:
        """Against the folder as the run found it. What is not in it is named above the first change."""
        run = self.run(pk)
        try:
            return HttpResponse(patch.of(run).message, headers=patch.download(run))
        except patch.NoPatch as refusal:
            raise NotFound(str(refusal)) from None
