"""XML documents of strangers, read as a stream."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

LARGEST = 10 << 20
"""Bytes of one document."""
_UNREADABLE = (ParseError, DefusedXmlException, ValueError, LookupError, RecursionError)


class Enough(ValueError):
    """The rest need not, or must not, be read."""


def parse(data: bytes, target: Any, *, with_dtd: bool = False) -> bool:
    """Feed a document to ``target``; was it whole? Cobertura names a DTD, which is never fetched."""
    if len(data) > LARGEST:
        return False
    parser = DefusedXMLParser(target=target, forbid_dtd=not with_dtd)
    try:
        parser.feed(data)
        parser.close()
    except _UNREADABLE:
        return False
    return True


def local_name(tag: str) -> str:
    return tag.rpartition("}")[2]
