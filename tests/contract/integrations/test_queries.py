"""The snippets of docs/guide/integrations.md: the triggers of KEDA and the textfile collector's command."""

import os
import re
import shlex
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


@pytest.mark.parametrize(("status", "file"), [(0, "new\n"), (1, "old\n"), (3, "old\n")])
def test_the_script_of_the_textfile_collector_replaces_the_file_after_a_whole_page_alone(
    tmp_path, status, file
):
    script, program = tmp_path / "script", tmp_path / "spec-decode-exporter"
    script.write_text(f"#!/bin/sh\n{snippet('sh', '#!/bin/sh')}")
    program.write_text(f"#!/bin/sh\necho new\nexit {status}\n")
    program.chmod(0o755)
    (tmp_path / "spec-decode.prom").write_text("old\n")
    environ = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(["/bin/sh", script, tmp_path], env=environ, check=False)
    assert ended.returncode == status
    assert (tmp_path / "spec-decode.prom").read_text() == file


def test_datadog_takes_every_metric():
    (instance,) = DATADOG["instances"]
    (pattern,) = instance["metrics"]
    assert all(re.search(pattern, metric.name) for metric in METRICS)
