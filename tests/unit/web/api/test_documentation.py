"""docs/reference/api.md: endpoints, parameters and examples.

``UPDATE_GOLDEN=1`` updates the examples.
"""

import json
import os
import re

from spec_decode_exporter.web.api import ENDPOINTS
from tests.paths import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "reference" / "api.md"
_EXAMPLE = re.compile(r"`(/api/v1/[^`\n]+)`:\n\n```json\n(.*?)\n```", re.DOTALL)


def written(answer):
    """Format JSON as in the document: one field per line, flat lists in one line."""
    text = json.dumps(answer, indent=2, ensure_ascii=False)
    return re.sub(
        r"\[[^][{}]*\]",
        lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"),
        text,
    )


async def test_the_examples_are_real_responses(client):
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = _EXAMPLE.findall(text)
    assert examples
    for path, shown in examples:
        answer = await client.get(path)
        found = written(await answer.json(content_type=None))
        if os.environ.get("UPDATE_GOLDEN"):
            text = text.replace(f"`{path}`:\n\n```json\n{shown}\n", f"`{path}`:\n\n```json\n{found}\n")
            DOCUMENT.write_text(text)
        else:
            assert shown == found


def test_every_endpoint_is_listed_with_its_parameters():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(/api/v1/[^`]+)` \|.*\| ?([^|]*?) ?\|$", text, re.MULTILINE)
    shown = {path: set(re.findall(r"`(\w+)`", parameters)) for path, parameters in rows}
    read = [endpoint for endpoint in ENDPOINTS if endpoint.body is None]
    assert shown == {endpoint.path: {each.name for each in endpoint.parameters} for endpoint in read}
    assert all(f"`POST {endpoint.path}`" in text for endpoint in ENDPOINTS if endpoint not in read)
