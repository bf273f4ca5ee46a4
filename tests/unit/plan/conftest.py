"""Plans made by the command line."""

import json

import pytest

from spec_decode_exporter.cli.main import parse
from spec_decode_exporter.cli.plan import plan_of
from tests.fakes.model_configs import LLAMA_8B

LLAMA_70B = {
    **LLAMA_8B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}


def planned(*words):
    """Return the plan of some arguments of the command."""
    return plan_of(parse(["plan", *words], {}))


def folder(path, config, **files):
    """Write a folder with a config.json and other files."""
    path.mkdir()
    for file, content in {"config.json": config, **files}.items():
        (path / file).write_text(json.dumps(content), encoding="utf-8")
    return str(path)


@pytest.fixture
def llamas(tmp_path):
    """Return the arguments of a Llama 70B with an 8B, by their config.json, on four GPUs of 80 GB."""
    target = folder(tmp_path / "Llama-3.1-70B-Instruct", LLAMA_70B)
    draft = folder(tmp_path / "Llama-3.1-8B-Instruct", LLAMA_8B)
    return ("--target", target, "--draft", draft, "--gpus", "4", "--gpu", "80GB")
