"""One server for pages and sockets."""

import os
import sys

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
pages = get_asgi_application()  # before the imports below: they need the app registry

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402

from agentops.database_pool import share_connections  # noqa: E402
from agentops.edge.request_limits.asgi import Edge  # noqa: E402
from agentops.edge.websocket_origin import SameOrigin  # noqa: E402
from loops.web.live.routes import websocket_urlpatterns  # noqa: E402

share_connections()
if "daphne.server" in sys.modules:  # it is daphne that has loaded this, and not another server or a test
    from agentops.edge.request_limits import daphne

    daphne.install()

application = ProtocolTypeRouter(
    {
        "http": Edge(pages),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
