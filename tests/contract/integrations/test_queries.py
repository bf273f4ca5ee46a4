"""The snippets of docs/guide/integrations.md: the triggers of KEDA, and the textfile collector by cron and systemd."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

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


UNITS = {
    name: snippet("ini", f"# /etc/systemd/system/{name}")
    for name in ("spec-decode-textfile.service", "spec-decode-textfile.timer")
}
CRON = re.search(r"`(?:\* ){5}(.+?)`", TEXT)[1]
SYSTEMD = re.search(r"^ExecStart=(.+)$", "".join(UNITS.values()), flags=re.MULTILINE)[1]


SCRIPT = ("spec-decode-textfile", f"#!/bin/sh\n{snippet('sh', '#!/bin/sh')}", 0o755)


def install(to, name, text, mode=0o644):
    """Make a file of a text of the recipe in a folder of the test."""
    for folder in ("/usr/local/bin", "/var/lib/node_exporter/textfile"):
        text = text.replace(folder, str(to))
    (to / name).write_text(text)
    (to / name).chmod(mode)
    return to / name


@pytest.mark.parametrize("command", [CRON, SYSTEMD], ids=["cron", "systemd"])
@pytest.mark.parametrize(("status", "file"), [(0, "new\n"), (1, "old\n"), (3, "old\n")])
def test_the_script_replaces_the_file_after_a_whole_page_alone(tmp_path, command, status, file):
    install(tmp_path, *SCRIPT)
    install(tmp_path, "spec-decode-exporter", f"#!/bin/sh\necho new\nexit {status}\n", 0o755)
    shown = install(tmp_path, "spec-decode.prom", "old\n")
    environ = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(["/bin/sh", install(tmp_path, "started", command)], env=environ, check=False)
    assert ended.returncode == status
    assert shown.read_text() == file


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_has_no_objection_to_the_units(tmp_path):
    install(tmp_path, *SCRIPT)
    paths = [install(tmp_path, *unit) for unit in UNITS.items()]
    checked = subprocess.run(
        ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, "spec-decode" in checked.stderr) == (0, False), checked.stderr


def test_datadog_takes_every_metric():
    (instance,) = DATADOG["instances"]
    (pattern,) = instance["metrics"]
    assert all(re.search(pattern, metric.name) for metric in METRICS)
