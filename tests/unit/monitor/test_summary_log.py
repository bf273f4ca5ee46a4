"""Summary lines about engines."""

from spec_decode_exporter.monitor.fleet import summary_line

LABELS = {"target": "one", "model_name": "m", "engine": "0", "team": "a"}


def test_a_line_is_about_the_longest_window_and_there_is_none_without_drafts(findings_of, make_sample):
    drafting = [make_sample(10 * n, 20 * n, 10 * n, positions=[7 * n, 3 * n], created=1.0) for n in range(31)]
    line = summary_line(LABELS, findings_of(drafting))
    assert (line["window"], line["seconds"]) == ("5m", 30)
    assert (line["drafts"], line["drafted_throughput"]) == (300, 20)
    assert line["mean_acceptance_length"] == line["acceptance_length_tokens"] == 2
    assert (line["per_position_acceptance_rate"], line["avg_draft_acceptance_rate"]) == ([0.7, 0.3], 0.5)
    assert None not in line.values()
    silent = [drafting[-1]] * 400
    assert summary_line(LABELS, findings_of(drafting + silent)) is None
    assert summary_line(LABELS, findings_of(drafting, later=60.0)) is None
