import signal
import subprocess
import sys
import tomllib

from tests.paths import CHECKOUT

BUSY_IMPORT = """
import sys, time, types
def main():
    print("importing", flush=True)
    time.sleep(600)
sys.modules["spec_decode_exporter.cli.main"] = types.SimpleNamespace(main=main)
from spec_decode_exporter.__main__ import main
main()
"""


def test_sigterm_during_the_imports_exits_with_the_status_of_a_signal():
    # Without a handler the status would be the signal itself, and in a container nothing would happen at all.
    with subprocess.Popen([sys.executable, "-c", BUSY_IMPORT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 128 + signal.SIGTERM


def test_no_large_module_is_imported_before_the_handler():
    script = "import sys, spec_decode_exporter.__main__; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True).split()
    assert "spec_decode_exporter.cli.main" not in loaded
    assert not {name.split(".")[0] for name in loaded} & {"aiohttp", "asyncio", "pydantic", "structlog"}


def test_it_is_the_entry_point_of_the_program():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"spec-decode-exporter": "spec_decode_exporter.__main__:main"}
