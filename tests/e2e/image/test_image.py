"""The image as a cluster runs it: read-only, without rights, under any user."""

import json
import os
import re
import time
from pathlib import PurePath

import pytest

from image.assemble import STATE_DIRECTORY
from spec_decode_exporter import __version__
from spec_decode_exporter.web.documentation import served
from tests.paths import CHECKOUT

from .conftest import call, run

STATE = f"/{STATE_DIRECTORY}"
LARGEST = 120_000_000
RESTRICTED = (
    *("podman", "run", "--network", "host", "--pull", "never"),
    # podman would give it a /tmp to write to.
    *("--read-only", "--read-only-tmpfs=false"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    *("--memory", "128m", "--memory-swap", "128m"),
)
"""Run a container as restricted as can be."""

FACTS = f"""
import importlib.metadata, json, os, socket, ssl
import dns.resolver
from spec_decode_exporter.web.documentation import PACKAGED, rendered, served
state, documents = os.stat("{STATE}"), served()
assert PACKAGED.is_dir()
assert all(rendered(path.read_text(), name, documents).content for name, path in documents.items() if name.endswith(".md"))
print(json.dumps({{
    "files": [os.path.join(folder, name) for top in ("/etc", "/opt", "/usr", "/var")
              for folder, _, names in os.walk(top) for name in names],
    "installed": {{found.name.lower().replace("_", "-"): found.version for found in importlib.metadata.distributions()}},
    "documents": {{name: path.stat().st_size for name, path in documents.items()}},
    "certificates": len(ssl.create_default_context().get_ca_certs()),
    "localhost": [found[4][0] for found in socket.getaddrinfo("localhost", 80)],
    "state": [state.st_uid, state.st_gid, state.st_mode & 0o777],
}}))
"""


@pytest.fixture(scope="module")
def facts(image):
    """Return what a script finds that the image's interpreter runs."""
    return json.loads(run(*RESTRICTED, "--rm", "--entrypoint", "python3", image, "-c", FACTS))


def test_it_is_small_and_says_what_it_is(image):
    (inspected,) = json.loads(run("podman", "image", "inspect", image))
    config = inspected["Config"]
    assert inspected["Size"] < LARGEST
    assert config["User"] == "65532:65532"
    assert list(config["ExposedPorts"]) == ["7732/tcp"]
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
    assert (labels["licenses"], labels["version"]) == ("Apache-2.0", __version__)
    assert not labels["source"]  # a checkout does not know it
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", labels["revision"])
    assert f"SPEC_DECODE_EXPORTER_REVISION={labels['revision']}" in config["Env"]
    assert "Volumes" not in config
    assert "Healthcheck" not in inspected


def test_there_is_no_shell_and_nothing_to_install_with(facts):
    files = facts["files"]
    programs = {path for path in files if PurePath(path).parent.name == "bin"}
    names = {re.sub(r"[\d.]+$", "", PurePath(path).name) for path in programs}
    assert names == {"python", "spec-decode-exporter", "idna", "markdown-it"}
    assert not [path for path in files if re.search(r"/(pip|setuptools|ensurepip|hatchling)[-/]", path)]
    assert not [path for path in files if "lent" in path or path.endswith("pip.conf")]


def test_it_holds_just_what_is_locked_and_the_documents_of_the_checkout(facts):
    lock = (CHECKOUT / "image" / "requirements.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    installed = facts["installed"]
    assert installed.pop("spec-decode-exporter")
    assert installed.items() <= locked.items()
    assert installed.keys() >= {"aiohttp", "dnspython", "pydantic"}
    assert facts["documents"] == {name: len(path.read_bytes()) for name, path in served().items()}


def test_it_trusts_the_usual_authorities_resolves_names_and_lets_any_user_write_its_state(facts):
    assert facts["certificates"] > 50
    assert "127.0.0.1" in facts["localhost"]
    assert facts["state"] == [65532, 0, 0o775]


@pytest.fixture
def container():
    """Return the name of a container, which is removed in the end."""
    name = f"spec-decode-exporter-e2e-{os.getpid()}"
    yield name
    call("podman", "rm", "--force", "--time", "0", name)


@pytest.mark.parametrize("user", ["65532:65532", "1000720000:0"], ids=["its own", "one of OpenShift's"])
def test_it_serves_on_a_read_only_root_and_writes_nothing_but_its_state(
    user, image, container, e2e, tmp_path
):
    url = f"http://127.0.0.1:{e2e.free_port()}"
    # As the directory is in the image, so is a new volume on it.
    os.chown(tmp_path, 65532, 0)
    tmp_path.chmod(0o775)
    run(
        *(*RESTRICTED, "--detach", "--name", container, "--user", user, "--volume", f"{tmp_path}:{STATE}"),
        *(image, "run", "--simulate", "steady", "--web.listen-address", url.removeprefix("http://")),
        *("--state.file", f"{STATE}/state.json"),
    )
    e2e.eventually(lambda: e2e.fetch(f"{url}/-/ready")[0] == 200)
    e2e.eventually(lambda: "\nspec_decode_acceptance_length_tokens{" in e2e.fetch(f"{url}/metrics")[2])
    written = run("podman", "diff", container).splitlines()
    begin = time.monotonic()
    run("podman", "kill", "--signal", "SIGTERM", container)
    assert int(run("timeout", "300", "podman", "wait", "--interval", "50ms", container)) == 0
    assert time.monotonic() - begin < e2e.PROMPTLY
    logged = call("podman", "logs", container)
    assert "Traceback" not in logged.stdout + logged.stderr
    state = tmp_path / "state.json"
    head, *_ = state.read_text().splitlines()
    assert json.loads(head)
    assert state.stat().st_uid == int(user.split(":")[0])
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    # Only the mount points that the engine makes.
    assert not [line for line in written if line and not re.fullmatch(r"C /(etc|var|var/lib|opt|usr)", line)]
