"""Addresses of the sockets."""

from __future__ import annotations

from django.urls import path

from loops.web.live.consumers import QueueConsumer, RunConsumer

websocket_urlpatterns = [
    path("ws/runs/<uuid:run_id>/", RunConsumer.as_asgi()),
    path("ws/queue/", QueueConsumer.as_asgi()),
]
