"""Expressions that several panels share. Every selector says which exporters it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from grafana.style import Words

_OURS, FIRING = 'alertname=~"SpecDecode.+"', 'alertstate="firing"'
"""Matchers of the alerts in config/prometheus/alerts, and of those that fire."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Selection of a dashboard: the variables that every selector matches."""

    labels: tuple[str, ...]
    prefix: str = "spec_decode_"
    """What the names of all metrics begin with."""
    also: tuple[str, ...] = ()
    """Other matchers, as PromQL writes them."""

    def __call__(self, metric: str, **matchers: str) -> str:
        """Return a selector of the metric; ``matchers`` are compared for equality."""
        own = [f'{label}=~"${label}"' for label in self.labels]
        given = [f'{label}="{value}"' for label, value in matchers.items()]
        return f"{self.prefix}{metric}{{{', '.join((*own, *given, *self.also))}}}"

    def short(self, metric: str, **matchers: str) -> str:
        """Return a selector of the value in the short window."""
        return self(metric, window="$short", **matchers)

    def long(self, metric: str, **matchers: str) -> str:
        """Return a selector of the value in the long window."""
        return self(metric, window="$long", **matchers)

    def rate(self, metric: str, **matchers: str) -> str:
        """Return the increase a second of a counter."""
        return f"rate({self(metric, **matchers)}[$__rate_interval])"

    def increase(self, metric: str, over: str = "$__range", **matchers: str) -> str:
        """Return the increase of a counter, a whole number."""
        return f"round(increase({self(metric, **matchers)}[{over}]))"

    def changes(self, metric: str, over: str = "$__range", **matchers: str) -> str:
        """Return how often the value of a gauge changed."""
        return f"changes({self(metric, **matchers)}[{over}])"


EXPORTERS = Scope(("job", "instance"))
PROCESSES = Scope(EXPORTERS.labels, prefix="")
"""What Prometheus, or a library, says of every process."""
FLEET = Scope(("job", "instance", "model_name"))
REQUESTS = Scope((*FLEET.labels, "request_type"))
ENGINE = Scope((*FLEET.labels, "target", "engine"))
ARMS = Scope(FLEET.labels, also=('$compare=~"$arm"',))
BASELINE = Scope(FLEET.labels, also=('$compare="$baseline"',))
"""Arms are told apart by the label that is chosen as ``compare``."""

PLACES = {"cluster": "Cluster", "namespace": "Namespace"}
"""Titles of labels that a Prometheus of several clusters adds, where instances may be equal; else empty."""

ENGINE_KEY = (*PLACES, "instance", "target", "model_name", "engine")
"""What tells one engine from another in a table."""


def by(key: Sequence[str], expression: str, how: str = "max") -> str:
    """Aggregate by the labels of ``key``."""
    return f"{how} by ({', '.join(key)}) ({expression})"


def percentile(quantile: str) -> str:
    """Return the words of a value of the label ``quantile``: ``0.99`` is p99."""
    return f"p{100 * float(quantile):g}"


def number_of_word(
    scope: Scope, metric: str, label: str, words: Words, key: Sequence[str], **matchers: str
) -> str:
    """Turn a state set, of which one series is 1, into its word's number; of several, the highest.

    The number is the sum of its binary digits, and a digit is 1 if one of the words that have it is: three
    selectors for eight words instead of eight.
    """
    digits = []
    for place in range((len(words) - 1).bit_length()):
        having = "|".join(word.value for number, word in enumerate(words) if number >> place & 1)
        having_it = replace(scope, also=(f'{label}=~"{having}"',))
        digits.append(f"{2**place} * sum without ({label}) ({having_it(metric, **matchers)})")
    return by(key, " + ".join(digits))


def ratio_of_sums(above: str, below: str, key: Sequence[str] = ()) -> str:
    """Divide the sums of two expressions: the one right way to average a ratio over engines."""
    return f"{by(key, above, 'sum')} / {by(key, below, 'sum')}"


def alerts(scope: Scope, *more: str, series: str = "ALERTS") -> str:
    """Return a selector of our alerts. An alert about a whole model lacks labels that the scope has."""
    own = (f'{label}=~"${label}|"' for label in scope.labels)
    return f"{series}{{{', '.join((_OURS, *more, *own))}}}"
