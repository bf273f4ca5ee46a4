"""Command lines that no command accepts: exit status 2, or 1 for an unusable file or server, and the remedy."""

import pytest

FILES = {
    "file.yml": "{}\n",
    "target.yml": "targets: [{url: http://a}]\n",
    "found.yml": "discovery: {files: [targets.yml]}\n",
    "no.json": "{}",
}
PLAN = ("plan", "--target", "70B", "--draft", "8B", "--gpus", "2")
NAMED = ("plan", "--model-name", "Qwen/Qwen3-32B", "--method", "eagle3")
PAST = ("observe", "--prometheus.url", "p:9090")
REPLAY = ("observe", "--replay", "x")
BASELINE = ("--baseline.prometheus.url", "http://a")
UNIT = "is not a number above 0, 1 at most"

# fmt: off
WRONG = [
    (["bogus"], "'bogus' is not a command; there are `run`, `check-config`, `observe`"),
    (["obsevre"], "'obsevre' is not a command; did you mean `observe`?"),
    (["run", "--log.level", "verbose"], "--log.level must be 'debug', 'info', 'warning' or 'error', not 'verbose'"),
    (["run", "--web.listen-address", "7851"], "--web.listen-address: '7851' is not an address to listen on: write host:port"),
    (["run", "--simulate", "dorp"], "--simulate: 'dorp' is not a scenario or file; did you mean `drop`?"),
    (["simulate", "--scenario", "stedy"], "--scenario: 'stedy' is not a scenario or file; did you mean `steady`?"),
    (["simulate", "--listen-address", "8000"], "--listen-address: '8000' is not an address to listen on"),
    (["observe", "localhost:99999"], "target 1 has an invalid host or port; a port is a number from 1 to 65535"),
    ([*PLAN, "--acceptance", "70%"], "--acceptance: '70%' is not a number of 0 or more, 1 at most: 0.7 is 70 %"),
    (["--web.listen-adress", ":1"], "did you mean --web.listen-address?"),
    (["run", "--config.file", "file.yml", "--target", "http://a:1"], "--target, or its variable, is for use without --config.file; put it into the file"),
    (["run", "--simulate", "drop", "--target", "http://a:1"], "--simulate"),
    (["run", "--simulate", "drop", "--simulate", "drop"], "--simulate names its target like the scenario: give"),
    (["run", "--config.auto-reload"], "there is no file to watch"),
    (["run", "--speculative.config", "$(NOT_KNOWN)"], "--speculative.config is not vLLM's JSON"),
    (["observe", "--fro", "3"], "--fro; did you mean --for? (see spec-decode-exporter observe --help)"),
    (["observe", "--for", "x"], "x"),
    (["observe", "--format", "pdf"], "invalid choice: 'pdf'"),
    (["observe", "--config.file", "found.yml"], "give URLs"),
    (["observe", "a:1", "--for", "60s", "--poll.interval", "25s"], "command line or environment: --poll.interval is more than a third of the shortest window, 1m; make it at most 20s"),
    (["observe", "--simulate", "steady", "--config.file", "file.yml"], "use it without URLs and"),
    (["observe", "--metrics.profile", "full"], "--metrics.profile needs --format prometheus"),
    (["observe", "--format", "html"], "--format html needs --prometheus.url"),
    (["observe", "--since", "7d"], "--since needs --prometheus.url"),
    ([*PAST[:2], "ftp://p"], "--prometheus.url"),
    ([*PAST, "localhost:8000"], "URL and --prometheus.url exclude each other: use one"),
    ([*PAST, *BASELINE], "--baseline.prometheus.url and --prometheus.url exclude each other"),
    ([*PAST, "--format", "prometheus"], "needs servers or a recording"),
    ([*REPLAY, "localhost:8000"], "URL and --replay exclude each other"),
    ([*REPLAY, "--against", "b:8000"], "give a file"),
    (["observe", "--against", "a", "--save", "b"], "use one"),
    (["observe", "--against", "a", "--format", "prometheus"], "--format prometheus is not for --against: use text, json"),
    (["recommend", "--exporter", "localhost:7732", "--snapshot", "x"], "one of the three"),
    (["recommend", "--exporter", "localhost:7732", *BASELINE], "--baseline.prometheus.url and --exporter exclude each other"),
    (["recommend", "--exporter", "http://me:secret@exporter"], "use --snapshot"),
    *[(["simulate", "--speed", speed], "is not a number above 0, 1000 at most") for speed in ("0", "1001", "nan", "fast")],
    *[(["simulate", "--requests.url", url], "is not an exporter's URL") for url in ("", "ftp://localhost:7732", "http://", "http://[::1")],
    ([*PLAN, "--gpu-memory", "80"], "'80' is no amount of memory; write it as 80GB"),
    *[([*PLAN, "--utilisation", share], f"'{share}' {UNIT}") for share in ("90", "0", "nan")],
    ([*PLAN, "--tokens", "129"], "'129' is not a whole number from 1 to 128"),
    ([*PLAN, "--target.dtype", "int3"], "'int3' is no dtype that is known; the dtypes are float32, bfloat16"),
    ([*PLAN, "--target.tensor-parallel", "4"], "--gpus 2 is not a multiple of --tensor-parallel 4"),
    ([*PLAN, "--gpu", "H1000"], "unknown GPU 'H1000'; did you mean H100?"),
    ([*NAMED[:3], "--method", "eagel3"], "--method eagel3 is no method of vLLM: eagle, "),
    (["plan"], "give --model-name for the speed-up alone, or --target for memory too"),
    ([*NAMED, "--gpus", "4"], "--gpus is about memory: add --target, such as 70B"),
    ([*NAMED, "--acceptance-length", "2"], "add --tokens"),
    ([*NAMED, "--tokens", "2", "--acceptance-length", "3.1"], "--acceptance-length 3.1 is not from 1 to 3, --tokens and one"),
    ([*NAMED, "--tokens", "2", "--acceptance-length", "2", "--acceptance", "0.5"], "omit one of them"),
    (["plan", "--target", "70B"], "give a draft model"),
    (["plan", "--target", "/nowhere", "--draft", "8B"], "nothing is downloaded"),
    (["run", "--poll.interval", "often"], "command line or environment: --poll.interval is not a duration"),
    (["observe", "a", "--cost.draft-cost-ratio", "x"], "command line or environment: --cost.draft-cost-ratio must be a number"),
    (["observe", "--speculative.method", ""], "command line or environment: --speculative.method must not be empty"),
    (["run", "--config.file", "target.yml", "--speculative.method", ""], "command line or environment: method must not be empty"),
    (["observe", "a", "ftp://vllm"], "command line or environment: target 2 is not an address"),
    (["observe", "a/m?model=x", "a/m?model=x&y=1"], "command line or environment: target 2 makes it a second target with the name a/x/m"),
    (["run", "--target", "http://a", "--target", "http://a/m"], "command line or environment: target 2 is missing: its address makes it a second target"),
]
FAILED = [
    (["observe", "--replay", "no.json"], "no.json"),
    (["observe", "--against", "none.json"], "none.json cannot be read: No such file or directory"),
    (["recommend", "--snapshot", "no.json"], "no.json: it is neither a response of /api/v1/snapshot"),
]
# fmt: on


@pytest.mark.parametrize(
    ("status", "words", "message"),
    [
        pytest.param(status, *row, id=" ".join(row[0]))
        for status, rows in ((2, WRONG), (1, FAILED))
        for row in rows
    ],
)
def test_a_wrong_command_line_ends_with_2_which_no_verdict_has_and_an_unusable_file_with_1(
    program, tmp_path, monkeypatch, status, words, message
):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    ended, out, error = program(*words)
    assert (ended, out) == (status, "")
    assert message in error
    assert error.count("\n") == 1
    assert "secret" not in error
