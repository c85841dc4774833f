"""`manage.py up`: the whole of AgentOps in one terminal, without Docker and without root."""

import json
import os
from typing import Any

from django.conf import settings
from django.core.management import call_command, get_commands
from django.core.management.base import CommandError, CommandParser
from django.db import connections

from agentops import roles
from agentops.embedded import EmbeddedError, postgres, stack, valkey
from agentops.embedded.paths import Paths
from agentops.embedded.root import service_user
from agentops.embedded.supervisor import Supervisor
from agentops.login import accounts, links
from loops.management.terminal import TerminalCommand
from loops.services.people import ensure_groups
from loops.tools.sandbox import installation


class Command(TerminalCommand):
    """Starts Postgres, Valkey, web, worker and beat, and stops them together."""

    help = "Run AgentOps: database, broker, web, worker, scheduler and monitor together. Ctrl-C stops everything."
    requires_system_checks: list[str] = []  # some checks want the database, which is not up yet

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the flags."""
        parser.add_argument("--host", default=settings.HOST, help="address to listen on (default: %(default)s)")
        parser.add_argument("--port", type=int, default=settings.PORT, help="default: $PORT or 8000")
        parser.add_argument("--quiet", action="store_true", help="write the processes' output to files only")
        parser.add_argument("--json-ready", action="store_true", help="when ready print one line of JSON, for scripts")
        parser.add_argument("--no-demo", action="store_true", help="do not make demo data on the first start")

    def handle(self, *args: Any, **options: Any) -> None:
        """Bring everything up, wait, bring everything down."""
        quiet = options["quiet"] or options["json_ready"]
        if "MAKELEVEL" not in os.environ and not quiet and (said := installation.notice()):  # make has said it already
            self._say(said)
        paths: Paths = settings.PATHS
        try:
            paths.make()
            supervisor = Supervisor(paths, self._say, show_output=not quiet)
            with supervisor.running():
                self._start(supervisor, options)
                supervisor.run()
        except EmbeddedError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self._say("stopped")

    def _start(self, supervisor: Supervisor, options: dict[str, Any]) -> None:
        host, port = options["host"], options["port"]
        stack.check_port(host, port)
        _start_servers(supervisor)
        self._refuse_an_unsafe_database()
        call_command("migrate", verbosity=0, interactive=False, skip_when_current=True)
        ensure_groups()
        password = accounts.ensure_admin(settings.PATHS)
        os.environ["PORT"] = str(port)  # the children build links with it
        settings.PATHS.port.write_text(str(port))
        supervisor.add(stack.web(host, port))
        supervisor.add(stack.worker())
        supervisor.add(stack.beat())
        if not options["no_demo"] and "seed_demo" in get_commands():
            call_command("seed_demo", verbosity=0)
        url = f"http://{_visible(host)}:{port}"
        supervisor.wait_for(lambda: stack.answers(f"{url}/healthz"), "web")
        supervisor.wait_for(lambda: stack.answers(f"{url}/readyz"), "worker")  # it has heard the clock
        supervisor.add(stack.monitor())  # last: nobody has to wait for it
        admin = accounts.first_admin()
        login = url + links.issue(admin) if admin else ""
        connections.close_all()
        if service_user.why_root:  # here, where it is read: nobody who starts it for the first time waits for that
            self._say(service_user.why_root)
        self._announce(url, login, password, as_json=options["json_ready"])

    def _refuse_an_unsafe_database(self) -> None:
        if settings.UNSAFE_DATABASE:
            return
        if broken := roles.broken_durability():
            raise EmbeddedError("; ".join(broken) + " (AGENTOPS_UNSAFE_DATABASE=1 starts anyway)")

    def _announce(self, url: str, login: str, password: str | None, *, as_json: bool) -> None:
        if as_json:
            ready = {"url": f"{url}/", "login": login, "state": str(settings.PATHS.state)}
            self.stdout.write(json.dumps(ready))
        else:
            lines = [f"Ready: {url}/   (Ctrl-C stops everything)"]
            if password:
                lines.append(f"Password of admin: {password}   (kept in {settings.PATHS.admin_password})")
            if login:  # last, where it is seen
                lines.append(f"Log in once, as admin: {login}")
            self.stdout.write("\n" + "".join(f"  {line}\n" for line in lines))
        self.stdout.flush()

    def _say(self, line: str) -> None:
        self.stderr.write(line)


def _start_servers(supervisor: Supervisor) -> None:
    """Start the servers for which no address was given."""
    paths = supervisor.paths
    if settings.EMBEDDED_POSTGRES:
        postgres.prepare(paths)
        supervisor.add(postgres.command(paths))
    if settings.EMBEDDED_VALKEY:
        supervisor.add(valkey.command(paths))
        supervisor.wait_for(lambda: valkey.is_ready(paths), "valkey")
    if settings.EMBEDDED_POSTGRES:
        supervisor.wait_for(lambda: postgres.is_ready(paths), "postgres")
        postgres.create_roles(paths)


def _visible(host: str) -> str:
    """Name a browser can use for the address we listen on."""
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
