"""Nothing in the committed files is lost on the way to Grafana."""

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from .shipped import each_board


def missing(written, read, path=""):
    """Return the keys of what was written that are not in what was read, or have another value there."""
    if isinstance(written, dict) and isinstance(read, dict):
        for key, value in written.items():
            yield from missing(value, read.get(key, "no such key"), f"{path}.{key}")
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for one, other in zip(written, read, strict=True):
            yield from missing(one, other, f"{path}[]")
    elif written != read:
        yield f"{path}: {written!r} is {read!r}"


@each_board
def test_every_key_is_one_that_grafana_knows(board):
    """Reading drops what the types do not have, so a misspelled key would be missing afterwards."""
    register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(board), cls=JSONEncoder))
    assert list(missing(board, read)) == []


@each_board
def test_a_configmap_holds_it(board):
    """`kubectl apply` keeps the last object in an annotation of at most 256 KiB."""
    assert len(json.dumps(board, indent=2)) < 200_000
