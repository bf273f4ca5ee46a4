"""The admission policy in a real API server: pods with a sidecar, and its arguments."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CalledProcessError

import pytest
import yaml

from spec_decode_exporter.discovery.vllm_command_line import config_speculation

from .conftest import eventually

SPECULATION = '{"method": "eagle3", "num_speculative_tokens": 4, "model": "org/draft-eagle3"}'
MARK = {"spec-decode-exporter/inject": "true"}
NAME = "spec-decode-exporter"
# What the template of a LeaderWorkerSet's pods has. Its webhook adds a worker's index, after any admission policy.
GROUP = {"leaderworkerset.sigs.k8s.io/name": "llama", "leaderworkerset.sigs.k8s.io/group-index": "0"}
STACK = Path(__file__).parents[1] / "production-stack.yaml"


@pytest.fixture
def injecting(render, cluster, namespace):
    """Return the namespace of a release that injects; values are further ones."""
    policies = []

    def install(values=None, labels=MARK):
        home = namespace()
        # Not the default, which would let a policy that fails look like one that leaves a pod alone.
        sidecar = {"injection": {"enabled": True, "failurePolicy": "Fail"}, **(values or {})}
        rendered = render({"mode": "sidecar", "sidecar": sidecar}, namespace=home)
        policies.append(rendered.one("MutatingAdmissionPolicy")["metadata"]["name"])
        cluster.apply(*rendered)
        eventually(lambda: sidecar_of(cluster.create(pod(home, labels=labels, generate=True))))
        return home

    yield install
    for name in policies:
        cluster.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name)


def pod(
    namespace, labels=MARK, name="vllm", generate=False, annotations=None, words=("vllm", "serve"), **spec
):
    metadata = {"namespace": namespace, "labels": labels, "annotations": annotations or {}}
    metadata |= {"generateName": "first-"} if generate else {"name": name}
    container = {"name": "vllm", "image": "vllm", "args": list(words)}
    # What the API server makes of it is all that counts: nothing runs it.
    spec = {"schedulerName": "none", "automountServiceAccountToken": False, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def sidecar_of(created):
    return next((c for c in created["spec"].get("initContainers", ()) if c["name"] == NAME), None)


def environment(created):
    return {one["name"]: one.get("value") for one in sidecar_of(created)["env"]}


def test_a_labelled_pod_comes_out_with_the_sidecar_of_the_templates(cluster, injecting, render_sidecar):
    created = cluster.create(pod(injecting()))
    own = render_sidecar()
    (container,), volumes = own["initContainers"], own["volumes"]
    given = sidecar_of(created)
    probe, asked = given.pop("livenessProbe"), container.pop("livenessProbe")
    assert asked["httpGet"].items() <= probe["httpGet"].items()
    assert {key: given[key] for key in container if key != "env"} == {
        key: value for key, value in container.items() if key != "env"
    }
    assert volumes[0] in created["spec"]["volumes"]
    assert environment(created)["SPEC_DECODE_EXPORTER_TARGET"] == "http://localhost:8000/metrics"


def test_what_the_pod_has_already_stays(cluster, injecting):
    volume = {"name": "own", "emptyDir": {}}
    created = cluster.create(
        pod(injecting(), volumes=[volume], initContainers=[{"name": "fetch", "image": "busybox"}])
    )
    assert [one["name"] for one in created["spec"]["initContainers"]] == ["fetch", NAME]
    assert [one["name"] for one in created["spec"]["volumes"]] == ["own", f"{NAME}-state"]
    assert len(created["spec"]["containers"]) == 1


def test_pods_that_are_not_selected_stay_as_they_are(cluster, injecting, namespace):
    home = injecting()
    assert sidecar_of(cluster.create(pod(home, labels={"app": "vllm"}))) is None
    assert sidecar_of(cluster.create(pod(namespace()))) is None


@pytest.mark.parametrize(
    "extra",
    [
        {"hostNetwork": True},
        {"labels": {**MARK, **GROUP, "leaderworkerset.sigs.k8s.io/worker-index": "1"}},
        {"labels": {**MARK, **GROUP}, "annotations": {"leaderworkerset.sigs.k8s.io/leader-name": "llama-0"}},
        {"labels": {**MARK, "ray.io/node-type": "worker"}},
        {"words": ["vllm", "serve", "--headless"]},
        {"words": ["-c", "exec vllm serve llama --headless --data-parallel-size 2"]},
    ],
    ids=[
        "host network",
        "worker",
        "worker before its webhook",
        "ray worker",
        "headless",
        "headless in a shell",
    ],
)
def test_pods_without_a_page_of_their_own_stay_as_they_are(cluster, injecting, extra):
    assert sidecar_of(cluster.create(pod(injecting(), **extra))) is None


def test_the_leader_of_a_group_gets_it(cluster, injecting):
    leader = {**MARK, **GROUP, "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    assert sidecar_of(cluster.create(pod(injecting(), labels=leader)))


@pytest.mark.parametrize("where", ["initContainers", "containers"])
def test_a_pod_that_has_one_gets_no_second(cluster, injecting, where):
    mine = {"name": NAME, "image": "mine"}
    given = pod(injecting())
    given["spec"].setdefault(where, []).append(mine)
    created = cluster.create(given)
    names = [c["name"] for key in ("initContainers", "containers") for c in created["spec"].get(key, ())]
    assert names.count(NAME) == 1


def test_a_pod_that_has_a_volume_of_that_name_is_taken_as_it_is(cluster, injecting):
    mine = {"name": f"{NAME}-state", "emptyDir": {}}
    created = cluster.create(pod(injecting(), volumes=[mine]))
    assert sidecar_of(created) is None
    assert created["spec"]["volumes"] == [mine]


@pytest.mark.parametrize(
    ("words", "annotations", "port"),
    [
        (["--port", "8200"], {}, "8200"),
        (["--port=8200", "--x"], {}, "8200"),
        (["-c", "vllm serve llama --port 8200 --x"], {}, "8200"),
        (["-c", "vllm serve \\\n --port 8200\n"], {}, "8200"),
        (["--port", "8200"], {"spec-decode-exporter/target-port": "9000"}, "9000"),
        (["--port", "8200"], {"spec-decode-exporter/target-port": "http"}, "8200"),
        (["-c", 'vllm serve llama --port "8200"'], {}, "8200"),
        (["-c", "vllm serve llama --port='8200' --x"], {}, "8200"),
        (["-c", "vllm serve llama --port 8200; echo gone"], {}, "8200"),
        (["-c", "(vllm serve llama --port\t8200)"], {}, "8200"),
        (["-c", "vllm serve llama --port 8200&\nwait"], {}, "8200"),
        (["--port", "8200"], {"spec-decode-exporter/target-port": "0"}, "8200"),
        (["--port", "8200"], {"spec-decode-exporter/target-port": "99999"}, "8200"),
        (["--port", "99999"], {}, "8000"),
        (["--port", "0"], {}, "8000"),
        (["--port", "$(PORT)"], {}, "8000"),
        (["--data-parallel-rpc-port", "13345"], {}, "8000"),
    ],
)
def test_the_port_is_the_one_that_the_pod_says(cluster, injecting, words, annotations, port):
    created = cluster.create(pod(injecting(), words=words, annotations=annotations))
    assert environment(created)["SPEC_DECODE_EXPORTER_TARGET"] == f"http://localhost:{port}/metrics"


@pytest.mark.parametrize(
    "server",
    [
        {"image": "own/server", "args": ["vllm", "serve", "llama", "--port", "8200"]},
        {"image": "own/server", "command": ["/opt/bin/vllm"], "args": ["serve", "llama", "--port=8200"]},
        {"image": "own/server", "command": ["python3", "-m", "vllm.entrypoints.cli.main", "--port", "8200"]},
        {"image": "own/server", "command": ["sh", "-c", "sleep 1;vllm serve llama --port 8200"]},
        {"image": "vllm/vllm-openai", "args": ["--model", "llama", "--port", "8200"]},
    ],
    ids=["by its words", "by its path", "as a module", "in a shell", "by its image"],
)
def test_the_port_of_another_container_is_not_vllm_s(cluster, injecting, server):
    given = pod(injecting())
    proxy = {
        "name": "proxy",
        "image": "nginx",
        "args": ["--port", "80", "--upstream=my-vllm:1", "--vllm-port=7"],
    }
    given["spec"]["containers"] = [proxy, {"name": "server", **server}]
    told = environment(cluster.create(given))
    assert told["SPEC_DECODE_EXPORTER_TARGET"] == "http://localhost:8200/metrics"


@pytest.mark.parametrize(
    "words",
    [
        ["vllm", "serve", "llama", "--speculative-config", SPECULATION, "--api-key", "secret"],
        ["--api-key", "secret", f"--speculative-config={SPECULATION}"],
        ["--speculative_config", SPECULATION],
        ["-sc", SPECULATION],
        ["-c", f"exec vllm serve llama --speculative-config '{SPECULATION}' --port 8000"],
        ["-c", f"set -e\nvllm serve llama \\\n  --speculative-config '{SPECULATION}'\n"],
        [
            "--speculative-config.method",
            "eagle3",
            "--speculative-config.num_speculative_tokens=4",
            "--speculative-config.model=org/draft-eagle3",
        ],
        ["--spec-method", "eagle3", "--spec-tokens", "4", "--spec-model", "org/draft-eagle3"],
    ],
)
def test_the_sidecar_is_told_how_its_vllm_speculates(cluster, injecting, words):
    told = environment(cluster.create(pod(injecting(), words=words)))[
        "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"
    ]
    assert "secret" not in told
    understood = config_speculation(told)
    assert (understood.method, understood.tokens) == ("eagle3", 4)
    assert understood.draft_model == "org/draft-eagle3"


def test_a_pod_that_does_not_speculate_tells_nothing(cluster, injecting):
    created = cluster.create(pod(injecting(), words=["vllm", "serve", "--seed", "1", "bash", "-scale"]))
    assert not environment(created).get("SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG")


def test_a_configuration_is_mounted_in_the_pod_s_own_namespace(cluster, injecting):
    home = injecting({"config": {"policy": {"min_drafts": 5}}})
    words = ["vllm", "serve", "llama", "--port", "8200", "--speculative-config", SPECULATION]
    created = cluster.create(pod(home, words=words))
    (mounted,) = [v["configMap"]["name"] for v in created["spec"]["volumes"] if "configMap" in v]
    assert mounted in cluster.get("configmap", home)
    told = environment(created)
    assert config_speculation(told.pop("SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG")).method == "eagle3"
    assert told == {"TARGET_PORT": "8200"}


def test_a_volume_that_people_add_is_mounted_and_a_pod_that_has_one_of_its_name_stays_as_it_is(
    cluster, injecting
):
    volume = {"name": "authority", "secret": {"secretName": "ca", "defaultMode": 292}}
    mount = {"name": "authority", "mountPath": "/etc/authority", "readOnly": True}
    home = injecting({"extraVolumes": [volume], "extraVolumeMounts": [mount]})
    created = cluster.create(pod(home))
    assert volume in created["spec"]["volumes"]
    assert mount in sidecar_of(created)["volumeMounts"]
    mine = {"name": "authority", "emptyDir": {}}
    assert sidecar_of(cluster.create(pod(home, name="other", volumes=[mine]))) is None


def test_the_engines_of_the_production_stack_get_it_by_the_labels_that_they_have(cluster, injecting):
    """As docs/guide/kubernetes-sidecar.md says: by the label of its release, which its router and its cache do not have."""
    home = injecting(
        {"selector": {"matchLabels": {"helm-release-name": "stack"}}}, labels={"helm-release-name": "stack"}
    )
    got = {}
    for one in yaml.safe_load_all(STACK.read_text()):
        group = one["spec"].get("leaderWorkerTemplate")
        for template in (
            (group["leaderTemplate"], group["workerTemplate"]) if group else (one["spec"]["template"],)
        ):
            name = template["spec"]["containers"][0]["name"]
            metadata = {"name": name, "namespace": home, "labels": template["metadata"]["labels"]}
            made = cluster.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
            )
            told = "SPEC_DECODE_EXPORTER_SPECULATIVE_CONFIG"
            got[name] = sidecar_of(made) and (environment(made).get(told) or "")
    assert config_speculation(got.pop("vllm")).method == "eagle3"
    assert got == {"router-container": None, "vllm-leader": "", "vllm-worker": None}


BREAKS = {
    "a condition": ("spec", "matchConditions", 0, "expression"),
    "a variable": ("spec", "variables", 3, "expression"),
    "the container": ("spec", "mutations", 0, "jsonPatch", "expression"),
}


@pytest.fixture(params=BREAKS)
def broken(request, render, cluster, namespace):
    """Install a policy that a mistake got into; return why it is refused, if it is at once, its name and its namespace."""
    home = namespace()
    sidecar = {"injection": {"enabled": True, "failurePolicy": "Fail"}}
    rendered = render({"mode": "sidecar", "sidecar": sidecar}, namespace=home)
    policy = rendered.one("MutatingAdmissionPolicy")
    *path, last = BREAKS[request.param]
    place = policy
    for key in path:
        place = place[key]
    place[last] += " + object.spec.noSuchField.orValue('x')"
    name = policy["metadata"]["name"]
    try:
        cluster.apply(*rendered)
        yield "", name, home
    except CalledProcessError as error:
        yield error.stderr, name, home
    cluster.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name, check=False)


def refusal(cluster, home):
    """Return why a pod is refused; nothing if it is not."""
    try:
        cluster.create(pod(home, generate=True))
    except ValueError as error:
        return str(error)
    return ""


def test_a_mistake_in_the_policy_would_fail_these_tests(cluster, broken):
    """Hence no user meets it: each pod of the other tests would be refused as these are."""
    refused, _, home = broken
    assert refused or eventually(lambda: refusal(cluster, home))


def test_by_default_a_mistake_lets_vllm_start_without_a_sidecar(cluster, broken, render):
    """The policy counts already when it gets the default: before it does, every pod is taken."""
    refused, name, home = broken
    default = render({"mode": "sidecar", "sidecar": {"injection": {"enabled": True}}})
    spec = default.one("MutatingAdmissionPolicy")["spec"]
    if refused:
        return
    eventually(lambda: refusal(cluster, home))
    patch = json.dumps({"spec": {"failurePolicy": spec["failurePolicy"]}})
    cluster.run("patch", "mutatingadmissionpolicy", name, "--type=merge", f"--patch={patch}")
    eventually(lambda: not refusal(cluster, home))
    assert sidecar_of(cluster.create(pod(home))) is None


def test_odd_values_come_out_as_they_went_in(cluster, render, namespace):
    """Quotes, backslashes and line breaks survive the policy's expressions."""
    home, odd = namespace(), "a\"b'c\\d\n$(X) ü {{ }}"
    rendered = render(
        {
            "mode": "sidecar",
            "sidecar": {"injection": {"enabled": True, "failurePolicy": "Fail"}},
            "extraEnv": [{"name": "ODD", "value": odd}],
        },
        namespace=home,
    )
    name = rendered.one("MutatingAdmissionPolicy")["metadata"]["name"]
    cluster.apply(*rendered)
    try:
        eventually(lambda: sidecar_of(cluster.create(pod(home, generate=True))))
        assert environment(cluster.create(pod(home)))["ODD"] == odd
    finally:
        cluster.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", name)
