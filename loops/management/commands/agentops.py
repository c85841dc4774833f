"""`manage.py agentops`: submit, watch, stop, fork and talk to runs from a terminal (SPEC T3, K1)."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from loops.engine.encoding import strict_json
from loops.engine.people.stop_phrases import sounds_like_stop
from loops.management import first_steps, repository_files, results, set_up, setups
from loops.management.lookup import one, user
from loops.management.lookup import run as run_of
from loops.management.orders import wait
from loops.management.run_follower import RunFollower
from loops.management.terminal import TerminalCommand
from loops.models import Agent, Delivery, Preflight, Project, Run, Workspace
from loops.printable.text import printable
from loops.services import access, forks, people, preflight, steering, tasks
from loops.services.configuration import Unfit
from loops.services.submission import called
from loops.storage.status import weakness
from loops.web import formatting, open_gates
from loops.workspaces import patch

REFUSALS = (
    access.NotAllowed,
    forks.ForkConflict,
    patch.NoPatch,
    people.NotPossible,
    steering.InvalidMessage,
    steering.NotPossible,
    tasks.IdempotencyConflict,
)
VERBS = {
    "init": set_up.Verb("set up a model, your folder and an agent, and try them", first_steps.declare, first_steps.do),
    "setup": set_up.Verb("say how a workspace is set up and tested, and run that", setups.declare, setups.do),
    "toml": set_up.Verb(
        "see what a workspace's agentops.toml states, and accept it", repository_files.declare, repository_files.do
    ),
    **set_up.VERBS,
}
"""Those that stand in a module of their own."""
OF_LIMITS = "a limit of the run, such as max_steps 50 or max_cost_usd 2.50; once for each"
HELP = {
    "retry": "go on with a run that AgentOps or its model could not finish",
    "check_confidence": "have the confidence of a run judged before its next step",
}
AS_WHOM = "do it as this user (default: the first superuser)"
CALLED = {"agentops agentops": "agentops", "__main__.py agentops": "python -m agentops"}
"""What people typed, where `agentops.command_line` put the name of this command before the verb."""


class Command(TerminalCommand):
    """The twin of the web pages: the same services, the same rules."""

    help = "Submit, watch, stop, fork and message runs; list them; take over what they changed; make API tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the verbs."""
        parser.prog = CALLED.get(parser.prog, parser.prog)
        parser.add_argument("--as", dest="actor", default="", metavar="USER", help=AS_WHOM)
        verbs = parser.add_subparsers(dest="verb", required=True, parser_class=argparse.ArgumentParser)
        _declare_submit(verbs.add_parser("submit", help="submit a task, and watch it with --watch"))
        _declare_fork(verbs.add_parser("fork", help="begin a new run with the history of another, up to a step"))
        watch = verbs.add_parser("watch", help="follow a run to its end; Ctrl+C stops the run, again ends watching")
        watch.add_argument("run", type=uuid.UUID)
        watch.add_argument("--json", action="store_true", help="JSON, one line for each fact")
        for verb in steering.STEERING:
            verbs.add_parser(verb, help=HELP.get(verb, f"{verb} a run")).add_argument("run", type=uuid.UUID)
        message = verbs.add_parser("message", help="send the agent of a run a message, or a command such as /stop")
        message.add_argument("run", type=uuid.UUID)
        message.add_argument("text")
        listing = verbs.add_parser("runs", help="list runs, newest first")
        listing.add_argument("--live", action="store_true", help="only those that have not ended")
        listing.add_argument("--limit", type=int, default=20)
        listing.add_argument("--json", action="store_true")
        verbs.add_parser("diff", help="show what a run changed").add_argument("run", type=uuid.UUID)
        carried = verbs.add_parser("patch", help="the same for git: agentops patch RUN | git am")
        carried.add_argument("run", type=uuid.UUID)
        results.declare(verbs)
        _declare_try(verbs.add_parser("try", help="run the commands of criteria once, before a task is submitted"))
        for name, verb in VERBS.items():
            verb.declare(verbs.add_parser(name, help=verb.help))
        _also_behind_the_verb(verbs)

    def handle(self, *args: Any, **options: Any) -> None:
        """Do it, or say in one line why not."""
        verb: str = options["verb"]
        try:
            if verb in steering.STEERING:
                self._steer(verb, options)
            elif verb in VERBS:
                VERBS[verb].do(self, options)
            else:
                getattr(self, f"_{verb.replace('-', '_')}")(options)
        except (tasks.InvalidTask, Unfit) as error:
            said = "\n".join(f"{called(field)}: {fault}" for field, fault in error.errors.items())
            raise CommandError(said) from error
        except REFUSALS as error:
            raise CommandError(str(error)) from error

    def _submit(self, options: dict[str, Any]) -> None:
        actor = user(options["actor"])
        project = one(Project.objects.visible_to(actor), "project", options["project"], "slug")
        scope = {"project": project}
        folder = options["workspace"]
        workspace = one(Workspace.objects.filter(**scope), "workspace", folder, "name") if folder else None
        made = tasks.submit_task(
            actor=actor,
            project=project,
            agent=one(Agent.objects.filter(**scope), "agent", options["agent"], "name"),
            workspace=workspace,
            goal=sys.stdin.read() if options["goal"] == "-" else options["goal"],
            criteria=self._criteria(options, workspace),
            limits={name: _amount(text) for name, text in options["limit"]},
            complexity=options["complexity"],
            output_schema=_schema(options["schema"]) if options["schema"] else None,
            idempotency_key=options["key"],
        )
        if made.note:
            self.stderr.write(printable(made.note))
        self.stdout.write(str(made.run.pk))
        if options["watch"]:
            RunFollower(made.run, actor, self.stdout, as_json=options["json"]).follow()

    def _criteria(self, options: dict[str, Any], workspace: Workspace | None) -> list[dict[str, str]]:
        """Those that were typed; without any those of the `agentops.toml` that somebody accepted, which are named."""
        if options["criterion"] or options["no_criteria"] or workspace is None or workspace.toml_by_id is None:
            return [_criterion(text) for text in options["criterion"]]
        for criterion in workspace.proposed_criteria:
            words = " :: ".join(filter(None, (criterion["text"], criterion["command"])))
            self.stderr.write(printable(f"Criterion of {workspace.name}: {words}"))
        return workspace.proposed_criteria

    def _fork(self, options: dict[str, Any]) -> None:
        actor = user(options["actor"])
        made = forks.fork_run(
            actor=actor,
            run=run_of(actor, options["run"]),
            step=options["step"],
            message=options["message"],
            model=options["model"],
            limits={name: _amount(text) for name, text in options["limit"]},
            idempotency_key=options["key"],
        )
        self.stdout.write(str(made.run.pk))
        if options["watch"]:
            RunFollower(made.run, actor, self.stdout, as_json=options["json"]).follow()

    def _watch(self, options: dict[str, Any]) -> None:
        actor = user(options["actor"])
        RunFollower(run_of(actor, options["run"]), actor, self.stdout, as_json=options["json"]).follow()

    def _steer(self, verb: str, options: dict[str, Any]) -> None:
        actor = user(options["actor"])
        steering.STEERING[verb](actor=actor, run=run_of(actor, options["run"]))
        self.stdout.write(f"{verb}: requested")

    def _message(self, options: dict[str, Any]) -> None:
        actor = user(options["actor"])
        item = steering.send_message(actor=actor, run=run_of(actor, options["run"]), text=options["text"])
        continues = item.kind == steering.Kind.MESSAGE and sounds_like_stop(options["text"])
        self.stdout.write(
            f"{item.kind}: requested{'; the run continues: `agentops stop` or /stop stops it' if continues else ''}"
        )

    def _runs(self, options: dict[str, Any]) -> None:
        rows = Run.objects.visible_to(user(options["actor"])).with_names()
        rows = open_gates.with_questions(rows.live() if options["live"] else rows)
        for run in rows[: max(options["limit"], 0)]:
            if options["json"]:
                row = {"id": str(run.pk), "status": run.status, "title": run.task.title, "agent": run.agent.name}
                row |= {"status_text": formatting.state(run), "waiting_on": run.waiting_on}
                row |= {"waiting_kind": run.waiting_kind, "waiting_name": run.waiting_name}
                row |= {"paused_by": run.paused_by, "paused_reason": run.paused_reason}
                self.stdout.write(json.dumps(row))
            else:
                steps = f"{run.total_steps}/{run.max_steps}"
                row = f"{run.pk}  {run.status:<20} {steps:>8}  {run.agent.name}: {run.task.title}{_why_it_rests(run)}"
                self.stdout.write(" ".join(row.split("\n")))

    def _diff(self, options: dict[str, Any]) -> None:
        result = patch.of(run_of(user(options["actor"]), options["run"]))
        for line in result.left_out:
            self.stderr.write(f"not shown: {line}")
        self.stdout.write(result.diff.decode(errors="backslashreplace"), ending="")

    def _patch(self, options: dict[str, Any]) -> None:
        if sys.stdout.isatty():
            raise CommandError(
                "The patch is for git: agentops patch RUN | git am, or > FILE. To read it: agentops diff RUN."
            )
        result = patch.of(run_of(user(options["actor"]), options["run"]))
        for line in result.left_out:
            self.stderr.write(f"not in the patch: {line}")
        sys.stdout.buffer.write(result.message)
        sys.stdout.buffer.flush()

    def _apply(self, options: dict[str, Any]) -> None:
        self._take_over(options, Delivery.Kind.FOLDER)

    def _commit(self, options: dict[str, Any]) -> None:
        self._take_over(options, Delivery.Kind.BRANCH)

    def _push(self, options: dict[str, Any]) -> None:
        self._take_over(options, Delivery.Kind.PUSH)

    def _take_over(self, options: dict[str, Any], kind: Delivery.Kind) -> None:
        actor = user(options["actor"])
        results.take_over(self, actor, run_of(actor, options["run"]), kind, yes=options["yes"])

    def _pull_request(self, options: dict[str, Any]) -> None:
        results.pull_request(self, run_of(user(options["actor"]), options["run"]))

    def _try(self, options: dict[str, Any]) -> None:
        actor = user(options["actor"])
        project = one(Project.objects.visible_to(actor), "project", options["project"], "slug")
        scope, folder = {"project": project}, options["workspace"]
        asked = preflight.ask(
            actor=actor,
            project=project,
            agent=one(Agent.objects.filter(**scope), "agent", options["agent"], "name"),
            workspace=one(Workspace.objects.filter(**scope), "workspace", folder, "name") if folder else None,
            criteria=[{"text": command, "command": command} for command in options["command"]],
        )
        wait(asked, (asked.until - asked.asked_at).total_seconds())
        if asked.state != Preflight.State.DONE:
            raise CommandError("The commands were not run: their worker was lost, or none runs. Start one, try again.")
        for tried in asked.results:
            self.stdout.write(printable(f"{tried['status']:<7} {tried['command']}: {tried['said']}"))
            if tried["status"] != "passed" and tried["output"]:
                self.stdout.write("".join(f"    {printable(line)}\n" for line in tried["output"].splitlines()))
        if any(tried["status"] not in ("passed", "failed") for tried in asked.results):
            raise CommandError("Some commands cannot run here: see above. As criteria they would prove nothing.")


def _also_behind_the_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """People type ``--as`` where they type the other options; what stands before the verb holds where it is not."""
    for parser in verbs.choices.values():
        parser.add_argument("--as", dest="actor", default=argparse.SUPPRESS, metavar="USER", help=AS_WHOM)
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                _also_behind_the_verb(action)


def _why_it_rests(run: Run) -> str:
    if weak := weakness(run.final_status):
        return f" ({weak})"
    if run.status == Run.Status.PAUSED:
        return f" ({formatting.paused(run)})"
    if run.status == Run.Status.WAITING and run.waiting_on:
        return f" ({open_gates.waits(run)})"
    return f" ({open_gates.standing(run)})" if run.status == Run.Status.WAITING_FOR_RESOURCE else ""


def _declare_try(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="+", help="a command as in a criterion, in quotes")
    parser.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")
    parser.add_argument("--agent", required=True, help="name or id: its access rules apply")
    parser.add_argument("--workspace", default="", help="name or id (default: an empty folder)")


def _declare_submit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("goal", help="what is to be done; - reads it from standard input")
    parser.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")
    parser.add_argument("--agent", required=True, help="name or id")
    parser.add_argument("--workspace", default="", help="name or id (default: a fresh empty folder)")
    parser.add_argument(
        "--criterion", action="append", default=[], help='acceptance criterion, as "text" or "text :: command"'
    )
    parser.add_argument("--no-criteria", action="store_true", help="take none from the workspace's agentops.toml")
    parser.add_argument("--limit", nargs=2, action="append", default=[], metavar=("NAME", "AMOUNT"), help=OF_LIMITS)
    parser.add_argument("--complexity", default="", choices=["", "simple", "moderate", "complex"])
    parser.add_argument("--schema", default="", help="file with the JSON Schema of the result")
    parser.add_argument("--key", default=None, help="idempotency key: the same key never makes two runs")
    parser.add_argument("--watch", action="store_true", help="follow the run to its end")
    parser.add_argument("--json", action="store_true", help="with --watch: JSON, one line for each fact")


def _declare_fork(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=uuid.UUID)
    parser.add_argument("--step", type=int, default=None, help="the last step to take over (default: where it stands)")
    parser.add_argument("--message", default="", help="what the agent is told next")
    parser.add_argument("--model", default="", help="name of another model")
    parser.add_argument("--limit", nargs=2, action="append", default=[], metavar=("NAME", "AMOUNT"), help=OF_LIMITS)
    parser.add_argument("--key", default=None, help="idempotency key: the same key never makes two forks of a run")
    parser.add_argument("--watch", action="store_true", help="follow the fork to its end")
    parser.add_argument("--json", action="store_true", help="with --watch: JSON, one line for each fact")


def _amount(text: str) -> Any:
    """A number where it is one; else the text, so that the service says what is wrong with it."""
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return text


def _schema(path: str) -> Any:
    try:
        return strict_json.read(Path(path).read_bytes())
    except OSError as error:
        raise CommandError(f"--schema {path}: {error.strerror}") from error
    except strict_json.NotJson as error:
        raise CommandError(f"--schema {path}: {error}") from error


def _criterion(text: str) -> dict[str, str]:
    words, _, command = text.partition(" :: ")
    return {"text": words.strip(), "command": command.strip()}
