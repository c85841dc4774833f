"""One way to set up agents, rules, models, policies and workspaces: checked, saved and recorded here, whichever door
it came by (Admin, the API, the command line; ADR 0065)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import IntegrityError, models, transaction
from django.db.models import ProtectedError

from loops.masking import LEAVE_OUT
from loops.models import Policy, Project
from loops.services import access, audit, policies, secrets
from loops.services.people import NotPossible
from loops.services.submission import unstorable

LONGEST_REASON = 300
SAY_WHY = "Why? Kept with the version that this makes."
Action = Literal["add", "change", "delete"]


class Unfit(Exception):
    """What was given cannot be set up like this. ``errors`` maps each field to a message fit for people."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in errors.items()))
        self.errors = dict(errors)


class Kind:
    """One kind of what is set up. Subclasses say what is particular to it; ``make``, ``change`` and ``delete`` are for
    doors that take plain values, the rest is what the forms of Admin ask as well."""

    model: ClassVar[type[models.Model]]
    of_installation: ClassVar[bool] = False
    """It holds for every project, so superusers alone change it."""
    wants_reason: ClassVar[bool] = False
    unchecked: ClassVar[tuple[str, ...]] = ()
    """Fields of which ``faults`` knows more than the table."""
    CHANGED: ClassVar[str]
    DELETED: ClassVar[str]
    """Kinds of audit events."""

    def faults(self, row: Any) -> dict[str, str]:
        """What is wrong with ``row`` beyond its table, by field. May bring a value into its one spelling."""
        return {}

    def permit(self, actor: Any, row: Any, *, allow: bool) -> bool:
        """Raise Unfit where ``actor`` may not save ``row`` as it is; ``allow``: a superuser answers for it. Returns
        whether that is to be recorded."""
        return False

    def same(self, row: Any, given: Mapping[str, Any]) -> Any:
        """What is given back instead of making it twice, where no name keeps that from happening."""
        return None

    def affected(self, row: Any) -> Iterable[Project]:
        """Projects for whose runs ``row`` decides."""
        return (row.project,)

    def detail(self, row: Any) -> dict[str, Any]:
        """What the audit log keeps of it beside the names of the fields."""
        return {"name": str(row)}

    def recorded(self, actor: Any, row: Any, changed: Iterable[str], *, allow: bool = False) -> None:
        """What is due when one was saved, in the same transaction."""
        detail = {**self.detail(row), "changed": sorted(changed)}
        audit.record(self.CHANGED, actor=actor, project=self._project_of(row), detail=detail)

    def forgotten(self, actor: Any, row: Any) -> None:
        """What is due when one is deleted."""
        detail = self.detail(row)
        audit.record(self.DELETED, actor=actor, project=self._project_of(row), detail=detail)

    def make(
        self,
        *,
        actor: Any,
        given: Mapping[str, Any],
        project: Project | None = None,
        reason: str = "",
        allow: bool = False,
    ) -> Any:
        """A new one. Raises NotAllowed or Unfit."""
        row = self.model() if self.of_installation else self.model(project=project)
        self._may(actor, row, "add", allow=allow)
        return self.same(row, given) or self._save(actor, row, given, reason, allow)

    def change(self, *, actor: Any, row: Any, given: Mapping[str, Any], reason: str = "", allow: bool = False) -> Any:
        """Change what is given and nothing else. Raises NotAllowed or Unfit."""
        self._may(actor, row, "change", allow=allow)
        current = self.model._default_manager.filter(pk=row.pk).first()
        if current is None:
            raise NotPossible(f"{row} was deleted meanwhile.")
        return self._save(actor, current, given, reason, allow)

    def delete(self, *, actor: Any, row: Any) -> None:
        """Delete what nothing refers to. Raises NotAllowed or NotPossible."""
        self._may(actor, row, "delete")
        try:
            with transaction.atomic():
                concerned = list(self.affected(row))
                self.forgotten(actor, row)
                name = str(row)
                row.delete()
                _version(concerned, actor, f"Deleted: {name}")
        except ProtectedError as error:
            raise NotPossible(_in_use(str(row), error.protected_objects)) from error

    def _may(self, actor: Any, row: Any, action: Action, *, allow: bool = False) -> None:
        what = f"{'make' if action == 'add' else action} {self.model._meta.verbose_name_plural}"
        permission = f"loops.{action}_{self.model._meta.model_name}"
        access.require_as_in_admin(actor, self._project_of(row), permission, what=what)
        if allow:
            access.require_superuser(actor, self._project_of(row), what="allow a folder or an address")

    def _save(self, actor: Any, row: Any, given: Mapping[str, Any], reason: str, allow: bool) -> Any:
        what = str(self.model._meta.verbose_name_plural)
        if held := secrets.refused(actor, what, {**given, "reason": reason}):
            raise Unfit(dict.fromkeys(held, LEAVE_OUT))
        self._fill(row, given, reason)
        self._check(row)
        answered_for = self.permit(actor, row, allow=allow)
        is_new = row._state.adding
        if not (is_new or given or allow):
            return row
        try:
            with transaction.atomic():
                if not is_new and not self.model._default_manager.select_for_update().filter(pk=row.pk):
                    raise NotPossible(f"{row} was deleted meanwhile.")
                row.save(**({} if is_new else {"update_fields": list(given)}))
                self.recorded(actor, row, given, allow=answered_for)
                _version(self.affected(row), actor, reason)
        except IntegrityError:  # somebody else was faster with the same name
            self._check(row)
            raise
        return row

    def _fill(self, row: Any, given: Mapping[str, Any], reason: str) -> None:
        faults = {}
        if self.wants_reason and not reason.strip():
            faults["reason"] = SAY_WHY
        elif len(reason) > LONGEST_REASON:
            faults["reason"] = f"has {len(reason):,} characters; at most {LONGEST_REASON} are possible"
        for name, value in {**given, "reason": reason}.items():
            texts = value if isinstance(value, list) else [value]
            if fault := next((fault for one in texts if isinstance(one, str) and (fault := unstorable(one))), ""):
                faults[name] = fault
        if faults:
            raise Unfit(faults)
        for name, value in given.items():
            setattr(row, name, value.strip() if isinstance(value, str) and name == "name" else value)

    def _check(self, row: Any) -> None:
        try:
            row.full_clean(exclude=self.unchecked)
        except ValidationError as error:
            raise Unfit(
                {
                    "name" if field == NON_FIELD_ERRORS else field: " ".join(messages)
                    for field, messages in error.message_dict.items()
                }
            ) from error
        if faults := self.faults(row):
            raise Unfit(faults)

    def _project_of(self, row: Any) -> Project | None:
        return None if self.of_installation else row.project


def _version(projects: Iterable[Project], actor: Any, reason: str) -> None:
    """A version of the policy of each, where anything that decides for its runs has changed."""
    concerned = list(projects)
    with_policy = set(Policy.objects.filter(project__in=concerned).values_list("project_id", flat=True))
    for project in concerned:
        if project.pk in with_policy:
            policies.current_version(project, actor=actor, reason=reason)


def _in_use(name: str, rows: Iterable[models.Model]) -> str:
    kinds = sorted({str(row._meta.verbose_name_plural) for row in rows})
    return f"{name} cannot be deleted: {' and '.join(kinds)} refer to it."
