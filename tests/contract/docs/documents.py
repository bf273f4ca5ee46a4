"""Parts of a Markdown page, and the violations in them: links, commands, requests, names of series and API fields."""

import json
import re
import shlex
from collections import defaultdict
from functools import cache
from urllib.parse import parse_qs, urlsplit

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.window.poll import Check
from tests.contract.promql import wrong_name
from tests.contract.rules.shipped import RUNBOOKS, every_series
from tests.paths import CHECKOUT

DOCS = CHECKOUT / "docs"

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


def wrong_links(text, page):
    """Yield links of a page, outside its code, to files and headings that do not exist."""
    prose = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            yield target


def anchors(path):
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_command(line):
    """Return the error of a command line of the exporter; None if it is valid."""
    from spec_decode_exporter.cli.main import parse
    from spec_decode_exporter.core.user_errors import UsageError

    try:
        parse(shlex.split(line)[1:], {})
    except UsageError as error:
        return str(error)
    except SystemExit as end:  # --help
        return f"exit status {end.code}"
    return None


def wrong_request(line):
    """Yield what a ``curl`` of the exporter's API asks for that does not exist, and unknown fields of its jq program."""
    schemas, parameters = _api()
    words = shlex.split(line.partition("|")[0])
    url = urlsplit(next(word for word in words if "localhost:7732" in word).removeprefix("localhost:7732"))
    if url.path not in parameters:
        yield url.path
    yield from set(parse_qs(url.query)) - parameters.get(url.path, set())
    program = re.search(r"jq(?: -\w+)* '([^']+)'", line)
    named = re.findall(r"\.([a-z_]+)", program[1]) if program else ()
    yield from set(named) - {name for schema in schemas.values() for name in schema.get("properties", ())}


@cache
def _api():
    """Return the schemas of the API's description, and the parameters of each path."""
    from spec_decode_exporter.web.api import ENDPOINTS, document

    parameters = defaultdict(set)
    for endpoint in ENDPOINTS:
        parameters[endpoint.path] |= {each.name for each in endpoint.parameters}
    return json.loads(document())["components"]["schemas"], parameters


def wrong_field(name):
    """Return whether ``engines[].cost.source`` and the like leads nowhere in a snapshot."""
    schemas, _ = _api()
    node = {"$ref": "SnapshotView"}
    for part in re.split(r"(?:\[\])?\.", name.removesuffix("[]")):
        while "properties" not in node:  # go on to the object that a field, a list or an optional field holds
            if "$ref" in node:
                node = schemas[node["$ref"].rpartition("/")[2]]
            elif inner := node.get("items") or next(iter(node.get("anyOf", ())), None):
                node = inner
            else:
                return True
        node = node["properties"].get(part)
        if node is None:
            return True
    return False


def wrong_series(name):
    """Return what is unknown of a series such as ``spec_decode_state{state="idle"}``: name, label, or value of a state."""
    if wrong := wrong_name(name, every_series()):
        return wrong
    for metric, label, value in re.findall(r'(spec_decode_\w+)\{(\w+)="(\w+)"', name):
        key, words = STATE_SETS.get(metric, (None, ()))
        if label == key and value not in words:
            return f"{metric}{{{label}={value}}}"
    return None


def alerts(names):
    """Return those of the names that look like alerts, without a runbook."""
    known = {path.stem for path in RUNBOOKS.glob("*.md")}
    return {name for name in names if name.startswith("SpecDecode")} - known
