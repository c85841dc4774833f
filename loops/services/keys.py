"""Which model may be asked where, with which key (SPEC S3): one rule for saving a model and for every use of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from django.db import transaction

from loops.llm.endpoints import keys
from loops.llm.endpoints.addresses import is_inward, is_private
from loops.models import ModelAddress, ModelConfig
from loops.services import audit

TO_ALLOW = "A superuser can allow it in Admin, Models: open the model, tick “Allow this address”, and save."


@dataclass(frozen=True, slots=True)
class Verdict:
    """``said`` is a sentence for whoever saves the model, ``refused`` for whoever uses it where a superuser's yes is
    missing; "" where it is allowed."""

    answer: Literal["allowed", "needs a superuser", "never"]
    said: str = ""
    refused: str = ""


ALLOWED = Verdict("allowed")


class Book:
    """What superusers allowed, read once and only where something else than a provider's own address is asked."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    @cached_property
    def _rows(self) -> list[ModelAddress]:
        return list(ModelAddress.objects.all())

    def verdict(self, row: ModelConfig, *, sends_key: bool) -> Verdict:
        """May the model be asked, where the value of its key goes along or not?"""
        if row.is_scripted:
            return ALLOWED
        try:
            pair = keys.pair_of(row.provider, row.api_key_env, row.base_url)
        except ValueError as error:
            return Verdict("never", str(error))
        if row.api_key_env and keys.NO_KEYS.fullmatch(row.api_key_env):
            return Verdict(
                "never", f"{row.api_key_env} is no key of a model, and is sent nowhere. Name another variable."
            )
        if keys.belongs(pair, self._environ):
            return ALLOWED
        if sends_key and not self._allows(pair):
            told = f"The value of {pair.key} would be sent to {pair.origin}."
            return Verdict("needs a superuser", told, f"{pair.key} is not sent to {pair.origin}: nobody allowed it.")
        if not row.vetted:
            told = f"{pair.origin} was given to this model by somebody who is no superuser."
            return Verdict("needs a superuser", told, told)
        return ALLOWED

    def refusal(self, row: ModelConfig) -> str:
        """Why the model may not be asked, for people; "" where it may. A variable that holds nothing sends nothing:
        servers of one's own are asked without a key."""
        found = self.verdict(row, sends_key=keys.is_set(row.api_key_env, self._environ))
        if found.answer == "needs a superuser":
            return f"{found.refused} {TO_ALLOW}"
        return found.said

    def may_be_inward(self, row: ModelConfig) -> bool:
        """May its address lead to this machine or its networks?"""
        if row.is_scripted or is_private(row.base_url):
            return True
        try:
            pair = keys.pair_of(row.provider, row.api_key_env, row.base_url)
        except ValueError:
            return False
        if pair.origin in keys.of_environment("", self._environ):
            return True
        return any(one.inward for one in self._rows if (one.key_name, one.origin) == (pair.key, pair.origin))

    def _allows(self, pair: keys.Pair) -> bool:
        return any((one.key_name, one.origin) == (pair.key, pair.origin) for one in self._rows)


def has_to_be_allowed(row: ModelConfig, environ: Mapping[str, str] = os.environ) -> str:
    """What a superuser has to say yes to before ``row`` is saved, as a sentence; "" for nothing. Raises ValueError for
    what nobody can allow. A variable that holds nothing now may hold a key tomorrow, so it counts here."""
    book = Book(environ)
    found = book.verdict(row, sends_key=bool(row.api_key_env))
    if found.answer == "never":
        raise ValueError(found.said)
    if found.said or book.may_be_inward(row) or not (where := leads_inward(row.base_url)):
        return found.said
    return f"{keys.origin_of(row.base_url)} leads to {where}, into a network of your own."


@transaction.atomic
def allow(row: ModelConfig, *, actor: Any) -> None:
    """Record who let the model be asked where, with which key. Two at once make one row and two entries in the log."""
    pair = keys.pair_of(row.provider, row.api_key_env, row.base_url)
    inward = bool(leads_inward(row.base_url))
    made, is_new = ModelAddress.objects.get_or_create(
        key_name=pair.key, origin=pair.origin, defaults={"inward": inward, "allowed_by": actor}
    )
    if inward and not is_new:
        ModelAddress.objects.filter(pk=made.pk).update(inward=True)
    detail = {"model": row.name, "key": pair.key, "address": pair.origin, "inward": inward}
    audit.record("model.address_allowed", actor=actor, detail=detail)


@transaction.atomic
def take_back(row: ModelAddress, *, actor: Any) -> None:
    """No model sends the key there any more, from its next call on."""
    ModelAddress.objects.filter(pk=row.pk).delete()
    audit.record("model.address_refused", actor=actor, detail={"key": row.key_name, "address": row.origin})


def refused() -> list[tuple[ModelConfig, str]]:
    """Models that workers do not ask, each with the reason."""
    book = Book()
    return [(row, said) for row in ModelConfig.objects.all() if (said := book.refusal(row))]


def leads_inward(url: str) -> str:
    """The first address of this machine or its networks that the host of ``url`` has now; "" for none, or no answer."""
    host = urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return ""
    addresses = (str(entry[4][0]).partition("%")[0] for entry in found)
    return next((address for address in addresses if is_inward(ip_address(address))), "")
