"""A real Alertmanager with the shipped routes and inhibitions, and who is told what. Only its waiting is cut short."""

import http.server
import json
import shutil
import threading
from datetime import UTC, datetime

import pytest
import yaml

from tests.contract.rules.test_alertmanager import (
    CRITICAL,
    DOWN,
    ENGINE,
    EXPORTER_DOWN,
    PATH,
    PREEMPTIONS,
    SAW_TOOTH,
    named,
)

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
"""Debian has another name for it."""
SUDDEN = [
    named("SuddenDrop", {**ENGINE, "target": name}, kind="sudden", severity="warning") for name in ("a", "b")
]
ALONE = named("SuddenDrop", {**ENGINE, "model_name": "qwen"}, kind="sudden", severity="warning")
ADVICE = named("WrongDraftLength", {**ENGINE, "model_name": "qwen"}, severity="info")
PAIRS = [
    (DOWN, named("NetSlowdown", ENGINE)),
    (SAW_TOOTH, named("DrafterDead", ENGINE)),
    (EXPORTER_DOWN, named("ExporterDown", {}, kind="absent")),
    (PREEMPTIONS, named("TailLatencyWidening", ENGINE)),
]
"""Causes, and what they inhibit, each pair in a cluster of its own."""


@pytest.fixture
def webhook():
    """The address of a receiver, and what it was told: receiver, status, alert and labels."""
    told = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.extend((body["receiver"], alert["status"], alert["labels"]) for alert in body["alerts"])
            self.send_response_only(200)  # and log nothing
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", told
        server.shutdown()
        thread.join()


@pytest.fixture
def alertmanager(e2e, webhook, start, tmp_path):
    """The address of the alerts in the API of a real Alertmanager."""
    if PROGRAM is None:
        pytest.skip(
            "Alertmanager is not installed: apt-get install prometheus-alertmanager, or another package"
        )
    config = yaml.safe_load(PATH.read_text(encoding="utf-8"))
    config["route"] |= {"group_wait": "5s", "group_interval": "1s"}
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": webhook[0]}]
    (tmp_path / "config.json").write_text(json.dumps(config))
    address = f"127.0.0.1:{e2e.free_port()}"
    files = (f"--config.file={tmp_path}/config.json", f"--storage.path={tmp_path}")
    command = [PROGRAM, *files, f"--web.listen-address={address}", "--cluster.listen-address="]
    start(lambda folder: e2e.Running("alertmanager", command, folder)).wait_for(f"http://{address}/-/ready")
    return f"http://{address}/api/v2/alerts"


def test_one_cause_is_one_notification_at_its_receiver_and_its_end_is_told(alertmanager, webhook, e2e):
    _, told = webhook
    pairs = [{**alert, "cluster": str(number)} for number, pair in enumerate(PAIRS) for alert in pair]
    # The cause of the two drops comes last.
    alerts = [{"labels": labels} for labels in (*SUDDEN, ALONE, ADVICE, *pairs, CRITICAL)]
    assert e2e.fetch(alertmanager, "POST", alerts)[0] == 200
    expected = [("night", CRITICAL), ("day", ALONE), ("advice", ADVICE)]
    e2e.eventually(lambda: all((receiver, "firing", labels) in told for receiver, labels in expected))
    inhibited = json.loads(e2e.fetch(f"{alertmanager}?active=false&silenced=false")[2])
    consequences = [*SUDDEN, *pairs[1::2]]
    assert {frozenset(alert["labels"].items()) for alert in inhibited} == {
        frozenset(labels.items()) for labels in consequences
    }
    assert not any(labels in consequences for _, _, labels in told)
    ended = [{"labels": CRITICAL, "endsAt": datetime.now(UTC).isoformat()}]
    assert e2e.fetch(alertmanager, "POST", ended)[0] == 200
    e2e.eventually(lambda: ("night", "resolved", CRITICAL) in told)
