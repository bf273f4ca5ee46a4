"""Prompts, outputs and users are nowhere in the exporter, in any format of a request."""

import gc
import json

import pytest

from tests.service.conftest import exporter
from tests.unit.requests.test_record import RECORD, SPECULATION, changed

SECRET = "grandmothers-pancakes"
USER = "ann-smith-of-leeds"
PAGES = (
    *("", "fragment", "metrics", "config"),
    *(f"api/v1/{name}" for name in ("requests", "snapshot", "events", "targets")),
)
RESPONSE = {
    **RECORD,
    "user": USER,
    "id": SECRET,
    "prompt": SECRET,
    "messages": [{"role": "user", "content": SECRET}],
    "choices": [{"message": {"content": SECRET}, "logprobs": {SECRET: [1, 2]}, "token_ids": [SECRET]}],
    SECRET: SECRET,
    "metrics": {**RECORD["metrics"], SECRET: SECRET},
    "usage": {**RECORD["usage"], SECRET: SECRET},
}
WRONG = [
    changed("n", SECRET),
    changed("temperature", SECRET),
    changed("metrics", SECRET),
    changed(SPECULATION, [SECRET]),
    changed(f"{SPECULATION}.num_spec_steps", SECRET),
    changed("model", f"{SECRET}\n"),
    changed("request_type", [SECRET]),
    changed("target", SECRET * 100),
    SECRET,
    {SECRET: SECRET},
]
BODIES = [
    json.dumps(RESPONSE),
    json.dumps(WRONG),
    "\n".join([json.dumps(RESPONSE), SECRET, f'{{"{SECRET}": 1, "{SECRET}": 2}}']),
    f'{{"prompt": "{SECRET}',
    f'["{SECRET}",',
    f'"{SECRET}" {SECRET}',
    SECRET,
]


@pytest.fixture
async def told(tmp_path, clock):
    salt = tmp_path / "salt"
    salt.write_text("0123456789abcdef")
    config = (
        f"discovery: {{files: [{tmp_path}/none.yml]}}\nstate: {{file: {tmp_path}/state.json}}\n"
        f"requests: {{ingest: true, users: {{salt_file: {salt}}}}}\n"
    )
    async with exporter(tmp_path, clock, config) as told:
        yield told


async def test_no_prompt_or_user_is_exported_logged_or_stored(told, tmp_path):
    assert all(SECRET in body for body in BODIES)
    answers = []
    for body in BODIES:
        for content_type in ("application/json", "application/x-ndjson", "text/plain"):
            headers = {"Content-Type": content_type}
            answers.append(await told.ask("api/v1/requests", "POST", data=body.encode(), headers=headers))
    pages = [await told.get(page) for page in PAGES]
    counted = await told.json("api/v1/requests")
    # The response three times: alone as JSON, as a line, and among lines, which count as lines as JSON too.
    assert counted["taken"] == 4
    assert counted["users"][0]["user"]
    await told.service.close()
    kept = "".join(path.read_text() for path in tmp_path.iterdir() if path.name != "salt")
    for text in (*(answer for _, answer in answers), *pages, str(told.logs), kept):
        assert SECRET not in text
        assert USER not in text


async def test_no_prompt_or_user_stays_in_memory(told):
    secret, user = SECRET[::-1], USER[::-1]
    body = json.dumps(RESPONSE).replace(SECRET, secret).replace(USER, user)
    headers = {"Content-Type": "application/json"}
    _, answer = await told.ask("api/v1/requests", "POST", data=body, headers=headers)
    assert json.loads(answer)["taken"] == 1
    gc.collect()
    seen, open_ = set(), [told.service.state.receiver()._store]
    while open_:
        each = open_.pop()
        if id(each) in seen or isinstance(each, type) or callable(each):
            continue
        seen.add(id(each))
        if isinstance(each, str):
            assert secret not in each
            assert user not in each
        open_.extend(gc.get_referents(each))
    assert len(seen) > 50
