"""Agents and the models they may use (SPEC B1, S3). Secrets are named by environment variable, never stored."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models

from loops.engine.values import ModelRole
from loops.ids import new_id, new_key
from loops.models.people import Project
from loops.querysets import ProjectScoped

PRICES = ("input_usd_per_mtok", "output_usd_per_mtok", "cache_read_usd_per_mtok", "cache_write_usd_per_mtok")


def _price(of: str, help_text: str) -> models.DecimalField:
    return models.DecimalField(
        f"price of {of}",
        max_digits=10,
        decimal_places=4,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=f"US dollars for a million tokens. {help_text}",
    )


class ModelConfig(models.Model):
    class Provider(models.TextChoices):
        """Our own; installed packages bring more (``loops.llm.providers``)."""

        ANTHROPIC = "anthropic", "Anthropic"
        OPENAI = "openai", "OpenAI-compatible"
        SCRIPTED = "scripted", "Scripted (no language model)"
        REPLAY = "replay", "Replay of a recording"

    class WindowSource(models.TextChoices):
        ASKED = "asked", "said by its server"
        LEARNT = "learnt", "learnt from an error"

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    name = models.SlugField(unique=True, help_text="How agents and runs refer to this model.")
    provider = models.CharField(max_length=20, choices=Provider)
    model_id = models.CharField(max_length=200, help_text="The provider's own name of the model, or the script's name.")
    base_url = models.CharField(max_length=500, blank=True, help_text="Leave empty for the provider's own address.")
    api_key_env = models.CharField(
        max_length=100, blank=True, help_text="Environment variable that holds the key. The key itself is never stored."
    )
    max_tokens = models.PositiveIntegerField(default=8192, validators=[MinValueValidator(1)])
    context_window = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1000)],
        help_text="Tokens that it takes, question and answer together. Empty: what its server says, else what is known "
        "of the model, else 32,768. Conversations are shortened before they pass it.",
    )
    window_found = models.PositiveIntegerField("window found", null=True, blank=True, editable=False)
    window_source = models.CharField(max_length=20, blank=True, default="", choices=WindowSource, editable=False)
    window_at = models.DateTimeField(null=True, blank=True, editable=False)
    vetted = models.BooleanField(
        default=True,
        editable=False,
        help_text="False: its address was given by somebody who is no superuser, before only superusers could.",
    )
    tested_at = models.DateTimeField(null=True, blank=True, editable=False)
    test_result = models.TextField(blank=True, default="", editable=False)
    calls_at_once = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Other calls wait here for their turn, which costs a run no time. Empty: one for a server of your "
        "own network, shared by all models of its address; any number for others.",
    )
    first_byte_s = models.PositiveIntegerField(
        "seconds to the first byte",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Longest silence before an answer begins. Empty: 600 for a server of your own network, 120 for "
        "others.",
    )
    thinking = models.CharField(
        max_length=20,
        default="off",
        help_text='"adaptive", a token budget (older Claude models), or "off": as the model does by itself.',
    )
    xml_tools = models.BooleanField(default=False, help_text="For models without native tool calls.")
    input_usd_per_mtok = _price("input", "Empty, and output too: the public price list decides.")
    output_usd_per_mtok = _price("output", "Thinking is output.")
    cache_read_usd_per_mtok = _price("cache reads", "Input that the provider had kept. Empty: the price of input.")
    cache_write_usd_per_mtok = _price("cache writes", "Input that it keeps for later. Empty: the price of input.")
    timeout_s = models.PositiveIntegerField(
        "seconds between bytes",
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Longest silence within an answer. Empty: 600 for a server of your own network, 120 for others.",
    )
    pace = models.FloatField(default=0.0, help_text="Scripted models: seconds between two streamed pieces.")
    fallback = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        help_text="Asked instead while this model cannot be reached; it may have a fallback of its own.",
    )

    class Meta:
        ordering = ["name"]
        verbose_name = "model"

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """A chain of fallbacks ends somewhere, and a price says what the whole call costs."""
        if self.fallback is not None and self in self.fallback.chain():
            raise ValidationError({"fallback": f"{self.fallback} falls back to {self.name}: that would go in circles."})
        some = [name for name in PRICES if getattr(self, name) is not None]
        missing = [name for name in PRICES[:2] if name not in some]
        if some and missing:
            raise ValidationError(dict.fromkeys(missing, "Give the prices of input and output, or none at all."))

    def chain(self) -> list[ModelConfig]:
        """This model and the fallbacks after it, in the order in which they are asked (SPEC E6)."""
        found: list[ModelConfig] = []
        model: ModelConfig | None = self
        while model is not None and model not in found:
            found.append(model)
            model = model.fallback
        return found

    @property
    def is_scripted(self) -> bool:
        return self.provider in {self.Provider.SCRIPTED, self.Provider.REPLAY}


class ModelAddress(models.Model):
    """A superuser let the value of a variable be sent to a server, or a public name lead inward (SPEC S3)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    key_name = models.CharField(max_length=100, blank=True, help_text="Name of the variable; empty: no key is sent.")
    origin = models.CharField(max_length=500, help_text="Scheme, host and port of the server.")
    inward = models.BooleanField(default=False, help_text="It may be an address of this machine or its networks.")
    allowed_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    allowed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["key_name", "origin"]
        verbose_name = "allowed address"
        verbose_name_plural = "allowed addresses"
        constraints = [models.UniqueConstraint(fields=["key_name", "origin"], name="model_address_once")]

    def __str__(self) -> str:
        return f"{self.key_name or 'no key'} to {self.origin}"


class Agent(models.Model):
    MODEL_ROLES = tuple(role.value for role in ModelRole if role is not ModelRole.FALLBACK)
    """Jobs for which an agent names a model, in ``<role>_model``; what a model falls back to it names itself."""

    id = models.CharField(primary_key=True, max_length=100, default=new_key, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="agents")
    name = models.CharField(max_length=120)
    agent_type = models.SlugField(default="general", help_text="The access rules of this type apply to the agent.")
    execution_loop = models.CharField(max_length=40, default="react", help_text="Name of a registered loop.")
    program = models.CharField(
        max_length=40,
        blank=True,
        default="",
        help_text="The agent of an installed package that leads its runs. Empty: the execution loop alone does.",
    )
    instructions = models.TextField(blank=True, help_text="Added to the system prompt.")
    actor_model = models.ForeignKey(ModelConfig, on_delete=models.PROTECT, related_name="+")
    planner_model = models.ForeignKey(ModelConfig, on_delete=models.PROTECT, related_name="+", null=True, blank=True)
    critic_model = models.ForeignKey(ModelConfig, on_delete=models.PROTECT, related_name="+", null=True, blank=True)
    confidence_model = models.ForeignKey(ModelConfig, on_delete=models.PROTECT, related_name="+", null=True, blank=True)
    summariser_model = models.ForeignKey(
        ModelConfig,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        blank=True,
        help_text="Sums up what is left out of a conversation that grows too long. Empty: it is listed from the "
        "record, without a model.",
    )
    classifier_model = models.ForeignKey(
        ModelConfig,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        blank=True,
        help_text="Asked for the class of a failure that no rule is sure of. Empty: the guess of the rules holds.",
    )
    is_active = models.BooleanField(default=True)

    objects = ProjectScoped.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["project", "name"], name="agent_name_once_per_project")]

    def __str__(self) -> str:
        return self.name
