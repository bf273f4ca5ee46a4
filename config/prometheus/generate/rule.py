"""Recording rules and alerts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule; ``@name`` in its texts stands for a setting."""

    record: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule; severity, durations and thresholds stand in the settings, under its name."""

    name: str
    summary: str
    """One sentence, always the same."""
    description: str
    """What is wrong where, with the numbers; a template of Prometheus'."""
    action: str
    """What to do, with the values to set; a template too. It is the end of the description."""
    expr: str
    dashboard: str = "spec-decode-engine"
    """The dashboard's uid."""
    variables: tuple[str, ...] = ("instance", "target", "model_name", "engine")
    """The labels that the dashboard is opened with."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of rules."""

    name: str
    about: str
    """What its first lines say."""
    groups: Mapping[str, Sequence[Recording | Alert]]

    @property
    def recordings(self) -> tuple[Recording, ...]:
        """The recording rules in it."""
        return tuple(rule for rules in self.groups.values() for rule in rules if isinstance(rule, Recording))

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts in it."""
        return tuple(rule for rules in self.groups.values() for rule in rules if isinstance(rule, Alert))


def expression(text: str) -> str:
    """Return an expression as it is written to a file."""
    return dedent(text).strip()


def once_each(labels: str, engines: str) -> str:
    """Return the engines within ``labels``, each once, however many exporters watch its server.

    ``engines`` has ``@only`` where its selectors take a matcher.
    """
    shared, own = (engines.replace("@only", f'target{how}"@local"') for how in ("!~", "=~"))
    return (
        f"max by ({labels}, target, engine) ({shared})\n"
        f"or max by ({labels}, instance, target, engine) ({own})"
    )


WHERE = (
    "{{ $labels.model_name }} on {{ $labels.target }} (engine {{ $labels.engine }}, {{ $labels.instance }})"
)
"""The engine that an alert is about."""

WHOLE = 'printf "%.0f"'
"""How a whole number is written in a description."""

_ENGINE = ("instance", "target", "model_name", "engine")


def set_tokens(otherwise: str) -> str:
    """Return the action to draft the recommended number of tokens; ``otherwise`` if none is recommended.

    ``otherwise`` has no full stop at its end.
    """
    selector = ",".join(f"{name}=%q" for name in _ENGINE)
    values = " ".join(f"$labels.{name}" for name in _ENGINE)
    present = f"(now {now('spec_decode_configured_tokens', WHOLE)})"
    return (
        f'{{{{ with printf "spec_decode_recommended_tokens{{{selector}}}" {values} | query }}}}'
        f"{{{{ with . | first | value }}}}Set num_speculative_tokens to {{{{ . | {WHOLE} }}}}{{{{ else }}}}"
        f"Restart without --speculative-config: num_speculative_tokens 0{{{{ end }}}} {present}"
        f"{{{{ else }}}}{otherwise}{{{{ end }}}}."
    )


def now(metric: str, form: str = 'printf "%.2f"', whose: tuple[str, ...] = _ENGINE, **labels: str) -> str:
    """Return a piece of a description: what a metric of the engine says while the alert fires.

    ``form`` is the function of Prometheus' templates that writes the value; ``whose`` names the labels of the
    alert that the metric carries too.
    """
    fixed = [f"{name}='{value}'" for name, value in labels.items()]
    selector = ",".join([*fixed, *(f"{name}=%q" for name in whose)])
    values = " ".join(f"$labels.{name}" for name in whose)
    asked = f'{{{{ with printf "{metric}{{{selector}}}" {values} | query }}}}'
    return f"{asked}{{{{ . | first | value | {form} }}}}{{{{ else }}}}unknown{{{{ end }}}}"
