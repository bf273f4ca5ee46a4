"""Templates of the page, the documentation and the reports: one Jinja2 environment with formats of numbers.

A format is a filter and a function: ``{{ ratio | percent }}``, ``{{ number(ratio, percent) }}``. In HTML
every text is escaped, and numbers have thin spaces. ``parts.html`` has the macros that pages share.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import getmembers, isfunction
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from spec_decode_exporter.core import number_formats

Format = Callable[[float], str]

_DASH: Final = "\u2013"
NOTHING: Final = Markup('<span class="none" title="no value">\u2013</span>')
"""Shown in place of an absent value."""

_MOMENT: Final = Markup('<time datetime="%s" title="%s">%s</time>')
_CODE: Final = Markup("<code>%s</code>")
_THIN_SPACES: Final = str.maketrans({" ": "\u202f", ",": "\u202f"})

_WRITERS: Final[dict[str, Callable[..., str]]] = dict(getmembers(number_formats, isfunction))
_WORDS: Final = frozenset({"number_range", "plural", "utc_clock", "utc_span"})
"""Writers of words and times, which keep their spaces."""


def environment(package: str, *, html: bool) -> Environment:
    """Return the environment of a package's folder ``templates``; an undefined name is an error."""
    loaders = [PackageLoader(package), PackageLoader("spec_decode_exporter.views")]
    its = Environment(
        loader=ChoiceLoader(loaders),
        autoescape=html,  # noqa: S701  reports are text
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not html,
        undefined=StrictUndefined,
        auto_reload=False,
    )
    known = _WRITERS
    if html:
        known = {name: write if name in _WORDS else _thin(write) for name, write in _WRITERS.items()}
        its.globals.update(_HTML)
    its.filters.update(known)
    its.globals.update(known)
    return its


def _thin(write: Callable[..., str]) -> Callable[..., str]:
    """Return a format with thin spaces, also between thousands."""
    return lambda *values, **options: write(*values, **options).translate(_THIN_SPACES)


def number(value: float | None, write: Format) -> Markup:
    """Return a number with its exact value, or a dash if it is absent."""
    if value is None:
        return NOTHING
    return Markup(f'<data value="{value!r}">{write(value)}</data>')  # noqa: S704  digits and units


def between(lower: float | None, upper: float | None, write: Format) -> Markup:
    """Return the 95 % bounds of a number; empty if they are unknown."""
    if lower is None or upper is None:
        return Markup()
    span = f"{number(lower, write)}{_DASH}{number(upper, write)}"
    return Markup(f'<small class="bounds" title="95 % bounds">{span}</small>')  # noqa: S704  as above


def moment(unix: float, now: float) -> Markup:
    """Return a moment as its age, with the exact time in the element; both in Unix time."""
    exact, age = datetime.fromtimestamp(unix, UTC), number_formats.ago(now - unix)
    return _MOMENT % (exact.isoformat(timespec="milliseconds"), f"{exact:%F %T} UTC", age)


def sentences(text: str) -> Markup:
    """Escape sentences; what is between two backticks is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup().join(_CODE % part if place % 2 else escape(part) for place, part in enumerate(parts))


_HELPERS: Final = (between, moment, number, sentences)
_HTML: Final[dict[str, Any]] = {"NOTHING": NOTHING, **{each.__name__: each for each in _HELPERS}}
