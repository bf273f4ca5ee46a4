"""Snippets of docs/guide/integrations.md, and the queries in them."""

import re

import yaml

from tests.paths import CHECKOUT

PAGE = CHECKOUT / "docs" / "guide" / "integrations.md"
TEXT = PAGE.read_text(encoding="utf-8")


def snippet(language, first_line):
    """Return the page's only code block of a language with a first line."""
    (block,) = re.findall(rf"^```{language}\n{first_line}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    return block


SCALED_OBJECT = yaml.safe_load(snippet("yaml", "# scaledobject.yaml"))
DATADOG = yaml.safe_load(snippet("yaml", "# conf.d/openmetrics.d/conf.yaml"))


def keda_queries():
    """Return the query of each trigger, by its name."""
    return {one["name"]: one["metadata"]["query"] for one in SCALED_OBJECT["spec"]["triggers"]}
