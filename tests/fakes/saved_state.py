"""The document of the state file, without a file."""

from spec_decode_exporter.monitor.state import document, entry_json


def document_of(remembered, now):
    """Return the document of what is remembered; every entry is in it."""
    state = remembered.state(now)
    kinds = (state.engines, state.baselines)
    texts = [[text for entry in entries for text in entry_json(entry)] for entries in kinds]
    assert [*map(len, texts)] == [*map(len, kinds)]
    return document(*texts)
