"""URL map (minimal start)."""

urlpatterns: list[object] = []
