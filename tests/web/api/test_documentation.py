"""docs/api.md names every page and parameter, and its answers are what the API answers.

``UPDATE_GOLDEN=1`` writes the answers anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from exporter.web.api.routes import ENDPOINTS

DOCUMENT = Path(__file__).parents[3] / "docs" / "api.md"
_EXAMPLE = re.compile(r"`(/api/v1/[^`\n]+)`:\n\n```json\n(.*?)\n```", re.DOTALL)


def written(answer):
    """JSON as the document has it: a field a line, lists in one."""
    text = json.dumps(answer, indent=2, ensure_ascii=False)
    return re.sub(
        r"\[[^][{}]*\]",
        lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"),
        text,
    )


async def test_the_answers_are_true(client):
    text = DOCUMENT.read_text(encoding="utf-8")
    examples = _EXAMPLE.findall(text)
    assert len(examples) == 2
    for path, shown in examples:
        answer = await client.get(path)
        found = written(await answer.json(content_type=None))
        if os.environ.get("UPDATE_GOLDEN"):
            DOCUMENT.write_text(
                text := text.replace(f"`{path}`:\n\n```json\n{shown}\n", f"`{path}`:\n\n```json\n{found}\n")
            )
        else:
            assert shown == found


def test_every_page_is_named_with_its_parameters():
    rows = re.findall(
        r"^\| `(/api/v1/[^`]+)` \|.*\| ?([^|]*?) ?\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    shown = {path: set(re.findall(r"`(\w+)`", parameters)) for path, parameters in rows}
    assert shown == {endpoint.path: set(endpoint.query.model_fields) for endpoint in ENDPOINTS}
