"""Snippets of docs/guide/integrations.md, and the queries in them."""

import re

import yaml

from tests.paths import CHECKOUT

PAGE = CHECKOUT / "docs" / "guide" / "integrations.md"
TEXT = PAGE.read_text(encoding="utf-8")


def snippet(language):
    """Return the page's only code block of a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
    return block


SCALED_OBJECT = yaml.safe_load(snippet("yaml"))

KEDA_MATCHERS = 'namespace="inference", pod=~"vllm-.+"'
"""Matchers of the engines that the ScaledObject selects."""


def keda_queries():
    """Return the query of each trigger, by its name."""
    return {one["name"]: one["metadata"]["query"] for one in SCALED_OBJECT["spec"]["triggers"]}
