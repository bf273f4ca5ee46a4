"""Build HTML; every text is escaped, since names are untrusted."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

_VOID: Final = frozenset(("img", "input", "link", "meta", "path", "rect", "line", "circle", "use"))
"""Elements without children."""
_NAMES: Final = {"class_": "class", "for_": "for", "viewbox": "viewBox", "aspect": "preserveAspectRatio"}

Value = str | int | bool | None


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Escape a text; return markup unchanged."""
    return value if isinstance(value, Markup) else Markup(escape(value))


def joined(parts: Iterable[str]) -> Markup:
    """Concatenate the parts."""
    return Markup("".join(map(text, parts)))


def tag(element: str, *children: str, **attributes: Value) -> Markup:
    """Return an element. Attributes of None or False are omitted, those of True have no value.

    ``class_`` is written ``class``, and ``aria_label`` as ``aria-label``.
    """
    start = f"<{element}{''.join(_attribute(*each) for each in attributes.items())}"
    if element in _VOID:
        return Markup(f"{start}/>")
    return Markup(f"{start}>{joined(children)}</{element}>")


def name(value: str) -> Markup:
    """Return an untrusted name, isolated from the text direction around it."""
    return tag("bdi", value)


def sentences(value: str) -> Markup:
    """Escape sentences; what is between two backticks is code."""
    parts = value.split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return joined(tag("code", part) if place % 2 else part for place, part in enumerate(parts))


def scrollable(table: Markup, label: str) -> Markup:
    """Return a table that scrolls sideways on a narrow screen, by keyboard too; ``label`` names it."""
    return tag("div", table, class_="scrolls", tabindex=0, role="group", aria_label=label)


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    written = _NAMES.get(key) or key.replace("_", "-")
    return f" {written}" if value is True else f' {written}="{escape(str(value))}"'
