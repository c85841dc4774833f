"""The address of everything but the probes, which are answered before addresses are looked up (`agentops.health`)."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponseRedirect
from django.templatetags.static import static
from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from agentops.login import links
from loops.api.endpoint import Endpoint


def favicon(request: HttpRequest) -> HttpResponseRedirect:
    """Send browsers that ask by habit to the icon of the pages."""
    return HttpResponseRedirect(static("favicon.svg"))


class Schema(Endpoint, SpectacularAPIView):
    """The API described as OpenAPI."""


class Docs(Endpoint, SpectacularSwaggerView):
    """The same for people, to read and to try."""


admin.autodiscover()
handler500 = "agentops.edge.failures.server_error"
urlpatterns: list[URLPattern | URLResolver] = [
    path("favicon.ico", favicon),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("login/once/<str:token>/", links.login_once, name="login-once"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("api/schema/", Schema.as_view(), name="schema"),
    path("api/docs/", Docs.as_view(url_name="schema"), name="api-docs"),
    path("api/v1/", include("loops.api.urls")),
    path("api/v1/", include("gates.api.urls")),
    path("", include("gates.web.urls")),
    path("", include("loops.web.urls")),
]
