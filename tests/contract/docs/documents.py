"""Parts of a Markdown page, and the violations in them: links, commands, requests, names of series and API fields."""

from __future__ import annotations

import json
import re
import shlex
from urllib.parse import parse_qs, urlsplit

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.views.fleet_view import SnapshotView, TargetsView
from spec_decode_exporter.web.api import ENDPOINTS
from spec_decode_exporter.web.openapi import document
from spec_decode_exporter.window.poll import Check
from tests.contract.rules.shipped import RUNBOOKS
from tests.contract.rules.test_names import wrong_names
from tests.paths import CHECKOUT

DOCS = CHECKOUT / "docs"

LISTS = {"engines": SnapshotView, "experiments": SnapshotView, "targets": TargetsView}
"""First part of an API field, and the model that has it."""

STATE_SETS = {
    "spec_decode_state": ("state", {*State}),
    "spec_decode_verdict": ("verdict", {*Verdict}),
    "spec_decode_acceptance_dropped": ("kind", {*DropKind}),
    "spec_decode_consistent": ("check", {*Check}),
}
"""Label of a state set, and its values."""


def blocks(text, *languages):
    """Return the code blocks of some languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)\n```", text, flags=re.MULTILINE | re.DOTALL)


def commands(text):
    """Return the command lines of a page, without prompts, redirections, pipes and comments."""
    lines = [
        line.removeprefix("$ ")
        for block in blocks(text, "sh", "console", "bash")
        for line in re.sub(r"\\\n\s*", "", block).splitlines()
    ]
    return [re.split(r" +(?:[>#&]|\| (?!jq))", line)[0] for line in lines]


def code(text):
    """Return what stands in backticks, without code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def without_code(text):
    """Return a page without its code blocks, and without what stands in backticks."""
    return re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_links(text, page):
    """Yield links of a page to files and headings that do not exist."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            yield target


def wrong_command(line):
    """Return the error of a command line of the exporter; None if it is valid."""
    try:
        parse(shlex.split(line)[1:], {})
    except SystemExit as end:
        return f"exit status {end.code}"
    return None


def wrong_request(line):
    """Yield what a ``curl`` of the exporter's API asks for that does not exist, and unknown fields of its jq program."""
    words = shlex.split(line.partition("|")[0])
    url = urlsplit(next(word for word in words if "localhost:7732" in word).removeprefix("localhost:7732"))
    found = [endpoint for endpoint in ENDPOINTS if endpoint.path == url.path]
    if not found:
        yield url.path
    yield from set(parse_qs(url.query)) - {each.name for each in (found[0].parameters if found else ())}
    program = re.search(r"jq(?: -\w+)* '([^']+)'", line)
    named = re.findall(r"\.([a-z_]+)", program[1]) if program else ()
    yield from set(named) - API_FIELDS


def _api_fields():
    schemas = json.loads(document(ENDPOINTS))["components"]["schemas"].values()
    return {name for schema in schemas for name in schema.get("properties", ())}


API_FIELDS = _api_fields()


def wrong_field(name):
    """Return whether ``engines[].cost.source`` and the like leads nowhere in the API's models."""
    first, *parts = re.split(r"(?:\[\])?\.", name.removesuffix("[]"))
    schema = LISTS[first].model_json_schema(mode="serialization")
    node = schema["properties"].get(first, {})
    for part in parts:
        node = _inside(node, schema).get("properties", {}).get(part)
        if node is None:
            return True
    return False


def _inside(node, schema):
    """Return the object that a field, a list or an optional field holds."""
    while "properties" not in node:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif "items" in node:
            node = node["items"]
        elif "anyOf" in node:
            node = node["anyOf"][0]
        else:
            return {}
    return node


def wrong_series(name):
    """Yield unknown names and labels of series such as ``spec_decode_state{state="idle"}``, and words that are no value."""
    yield from wrong_names(name)
    for metric, label, value in re.findall(r'(spec_decode_\w+)\{(\w+)="(\w+)"', name):
        key, words = STATE_SETS.get(metric, (None, ()))
        if label == key and value not in words:
            yield f"{metric}{{{label}={value}}}"


def series(names):
    """Return those of the names that are names of series."""
    return [name for name in names if re.match(r"(spec_decode_|vllm:)\w", name)]


def alerts(names):
    """Return those of the names that look like alerts, without a runbook."""
    known = {path.stem for path in RUNBOOKS.glob("*.md")}
    return {name for name in names if name.startswith("SpecDecode")} - known
