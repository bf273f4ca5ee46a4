"""HTML that cannot be broken: whatever is not made here is escaped, and names come from strangers."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

_VOID: Final = frozenset(("img", "input", "link", "meta", "path", "rect", "line", "circle", "use"))
"""Elements without children; those of SVG close themselves."""
_NAMES: Final = {"class_": "class", "for_": "for", "viewbox": "viewBox", "aspect": "preserveAspectRatio"}

Value = str | int | bool | None


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Return a text as HTML; what is HTML already stays as it is."""
    return value if isinstance(value, Markup) else Markup(escape(value))


def joined(parts: Iterable[str]) -> Markup:
    """Return the parts one after the other."""
    return Markup("".join(map(text, parts)))


def tag(element: str, *children: str, **attributes: Value) -> Markup:
    """Return an element. An attribute of None or False is left out, one of True has no value.

    ``class_`` is written ``class``, and ``aria_label`` as ``aria-label``.
    """
    start = f"<{element}{''.join(_attribute(*each) for each in attributes.items())}"
    if element in _VOID:
        return Markup(f"{start}/>")
    return Markup(f"{start}>{joined(children)}</{element}>")


def name(value: str) -> Markup:
    """Return a stranger's name: whatever direction its letters run in, it turns no others around."""
    return tag("bdi", value)


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    written = _NAMES.get(key) or key.replace("_", "-")
    return f" {written}" if value is True else f' {written}="{escape(str(value))}"'
