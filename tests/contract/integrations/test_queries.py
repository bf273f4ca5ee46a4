"""The snippets of docs/guide/integrations.md: the triggers of KEDA and the textfile collector's command."""

import re
import shlex

from spec_decode_exporter.metrics.table import METRICS
from tests.contract.docs.documents import wrong_command

from .shipped import DATADOG, SCALED_OBJECT, TEXT, keda_queries, snippet


def test_every_trigger_is_explained_and_an_unknown_value_is_an_error_and_not_0():
    """KEDA takes no result as 0 by default, and 0 removes replicas."""
    assert re.findall(r"^- `([\w-]+)` (?:is|divides)", TEXT, flags=re.MULTILINE) == [*keda_queries()]
    triggers = SCALED_OBJECT["spec"]["triggers"]
    assert {one["metadata"]["ignoreNullValues"] for one in triggers} == {"false"}


def test_the_command_for_the_textfile_collector_is_valid():
    (command,) = re.findall(
        r"^spec-decode-exporter .*?(?= > )", snippet("sh", "#!/bin/sh"), flags=re.MULTILINE
    )
    assert shlex.split(command)[-2:] == ["--format", "prometheus"]
    assert wrong_command(command) is None


def test_datadog_takes_every_metric():
    (instance,) = DATADOG["instances"]
    (pattern,) = instance["metrics"]
    assert all(re.search(pattern, metric.name) for metric in METRICS)
