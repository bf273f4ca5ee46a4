"""The document of the state file, without a file."""

from spec_decode_exporter.monitor.state_file import document, entry_json


def document_of(remembered, now):
    """Return the document of what is remembered; every entry is in it."""
    engines, baselines = [*remembered.engines(now)], [*remembered.baselines(now)]
    texts = [[text for entry in entries for text in entry_json(entry)] for entries in (engines, baselines)]
    assert [len(each) for each in texts] == [len(engines), len(baselines)]
    return document(*texts)
