"""What the API takes. Serializers here only clean the shape; the rules are those of the services."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from loops.engine.state.limits import FIELD_OF, LIMITS
from loops.engine.text.truncation import shortened
from loops.services.steering import MAX_MESSAGE, STEERING
from loops.services.submission import FINAL_REVIEWS, MAX_GOAL, MAX_TITLE


class Strict(serializers.Serializer):
    """A field nobody asked for is an error: it would be somebody's false belief about what happens."""

    def to_internal_value(self, data: Any) -> Any:
        """Refuse unknown fields before looking at the known ones."""
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            raise serializers.ValidationError(
                {shortened(str(name), 100): ["There is no such field."] for name in unknown[:20]}
            )
        return super().to_internal_value(data)


class RawText(serializers.CharField):
    """Text as it was sent, whitespace included. Whether it can be stored is the service's question."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)
        self.validators = []

    def to_internal_value(self, data: Any) -> str:
        """Take text only: no numbers, no booleans."""
        if not isinstance(data, str):
            self.fail("invalid")
        return data


COMMAND_HELP = (
    "Shell command that exits with 0 where the criterion is met. It proves it by a report of single tests, which fail "
    "without the work; what is not proved, a person decides."
)


class CriterionInput(Strict):
    """An acceptance criterion, with a command that measures it when there is one."""

    text = RawText(allow_blank=True, default="")
    command = RawText(allow_blank=True, default="", help_text=COMMAND_HELP)


class LimitsInput(Strict):
    """Overrides of the complexity profile: any limit, money in dollars or in millionths of one."""

    def get_fields(self) -> dict[str, serializers.Field]:
        """One for each limit."""
        money = {shown: serializers.FloatField(required=False) for shown, name in FIELD_OF.items() if shown != name}
        whole = {
            name: serializers.IntegerField(required=False, help_text=row.help or None) for name, row in LIMITS.items()
        }
        return {**whole, **money}


class TaskInput(Strict):
    """A task to submit."""

    project = serializers.CharField(help_text="Id or slug.")
    agent = serializers.CharField(help_text="Id or name.")
    workspace = serializers.CharField(
        required=False, allow_blank=True, default="", help_text="Id or name; empty: none."
    )
    title = RawText(required=False, allow_blank=True, default="", help_text=f"At most {MAX_TITLE} characters.")
    goal = RawText(allow_blank=True, help_text=f"What is to be done; at most {MAX_GOAL:,} characters.")
    criteria = CriterionInput(many=True, required=False)
    constraints_text = RawText(required=False, allow_blank=True, default="")
    complexity = serializers.ChoiceField(
        ["simple", "moderate", "complex"], required=False, allow_blank=True, default=""
    )
    limits = LimitsInput(required=False)
    final_review = serializers.ChoiceField(
        [choice for choice in FINAL_REVIEWS if choice], required=False, allow_blank=True, default=""
    )
    output_schema = serializers.DictField(required=False, allow_null=True, help_text="JSON Schema of the result.")
    execution_loop = serializers.CharField(required=False, allow_blank=True, default="")
    dedupe_content = serializers.BooleanField(
        required=False, default=False, help_text="Give back a completed run of the same content, if there is one."
    )


class SteerInput(Strict):
    """An order to a run."""

    action = serializers.ChoiceField(list(STEERING))


class RollbackInput(Strict):
    """An order to undo exactly what was shown."""

    digest = serializers.CharField(max_length=64, help_text="As the preview gave it.")


class MessageInput(Strict):
    """Something to tell a run. Commands such as ``/stop`` and a plain wish like "please stop" steer it; a command that
    does not exist is refused."""

    text = RawText(help_text=f"At most {MAX_MESSAGE:,} characters.")
