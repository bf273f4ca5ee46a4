"""Content of the page: what it shows of engines, targets, events, experiments and requests."""

import re
from dataclasses import replace
from unittest.mock import patch

import pytest

from spec_decode_exporter.analysis.evaluation import Basis
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.missing_evidence import CostMeasurement
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, Obstacle, SpeculationSetting
from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.experiments.arm import SpeedupBasis
from spec_decode_exporter.experiments.traffic import Traffic
from spec_decode_exporter.monitor.event_log import RecordedEvent
from spec_decode_exporter.monitor.snapshot import ExporterStatus, Snapshot, id_of
from spec_decode_exporter.requests.record import Refusal, RequestRecord, RequestSource
from spec_decode_exporter.requests.store import RequestFindings, RequestStore
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.engine_view import EngineView, ObstacleView, SettingView, UsedTokensView
from spec_decode_exporter.views.fleet_view import ArmSpeedupView, ArmView, ArmWindowView, ExperimentView
from spec_decode_exporter.views.latency_view import ComparedQuantileView, LatencyComparisonView
from spec_decode_exporter.views.trace import Trace
from spec_decode_exporter.web import fleet
from spec_decode_exporter.web.fleet import SORTS, Events, PageQuery
from spec_decode_exporter.web.page import chart_title
from tests.fakes.mixed_requests import mixed_requests
from tests.unit.views.test_templating import Reading
from tests.unit.web.pages import shown

DROPPED = RecordedEvent(
    id="1-1", time=100.0, type="acceptance_dropped", bad=True, target="chat", model_name="llama", engine="0",
    engine_id="e", fields={},
)  # fmt: skip


def text_of(html):
    return " ".join(Reading(html).text.split())


def test_a_chart_says_its_newest_value_and_its_range_or_that_nothing_was_drafted():
    trace = Trace(300.0, (2.0, 1.0, 0.0), (0.5, None, 0.75))
    assert chart_title(trace) == "Acceptance rate over the last 5 min: 75.0 % now, between 50.0 % and 75.0 %."
    assert "75.0 % last," in chart_title(trace._replace(ratios=(0.75, None)))
    assert chart_title(trace._replace(ratios=(None,))) == "Nothing was drafted in the last 5 min."


# Engines


async def test_engines_that_need_attention_come_first(watched_snapshot, engines):
    snapshot = replace(watched_snapshot, engines=watched_snapshot.engines[::-1])
    html = await shown(snapshot)
    assert html.index(f'id="e-{engines[1].id}"') < html.index(f'id="e-{engines[0].id}"')
    for first, second in (engines, engines[::-1]):
        places = {first.target: 0, second.target: 1}
        with patch.object(
            EngineView, "urgency", property(lambda engine, places=places: places[engine.target])
        ):
            html = await shown(snapshot)
        assert html.index(f'id="e-{first.id}"') < html.index(f'id="e-{second.id}"')


async def test_an_engine_that_does_not_draft_has_no_verdict(engines):
    drafting, plain = [await shown(views=[engine]) for engine in engines]
    rows = [html[: html.index('id="glossary"')] for html in (drafting, plain)]
    assert ['class="verdict ' in row for row in rows] == [True, False]


async def test_no_name_breaks_the_page(watched_snapshot):
    evil = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{7*7}}{% raw %}"
    labels, engine = watched_snapshot.engines[0]
    named, (own, status) = dict.fromkeys((*labels, "zone"), evil), watched_snapshot.targets[0]
    record = replace(status.record, up=False, engines=None, error=evil, version=evil)
    snapshot = replace(
        watched_snapshot,
        engines=[(named, engine)],
        targets=[({**own, "target": evil}, replace(status, name=evil, record=record))],
        exporter=[({}, ExporterStatus(state_problem=evil, reload_problem=evil))],
    )
    failing = {"type": "target_failing", "fields": {"error": evil}}
    event = replace(DROPPED, **failing, target=evil, model_name=evil, engine_id=evil)
    query = PageQuery(evil[:5], (id_of(named), evil))
    reading = Reading(await shown(snapshot, query, events=Events([event])))
    assert reading.text.count(evil) > 10
    assert not {"script", "img"} & set(reading.elements)
    assert "onerror" not in dict(reading.attributes)
    assert "Cannot be shown" not in reading.text


async def test_a_filter_keeps_the_counts_of_the_whole_fleet(watched_snapshot):
    html = await shown(watched_snapshot, PageQuery("method=eagle3"))
    assert html.count('class="engine"') == 1
    assert "1 of 2</output>" in html
    assert "Speculation pays" in html
    assert "No engine matches" in await shown(watched_snapshot, PageQuery("nothing"))


async def test_the_rows_of_a_large_fleet_are_limited_and_open_engines_stay(
    watched_snapshot, engines, monkeypatch
):
    monkeypatch.setattr(fleet, "MAX_ROWS", 1)
    html = await shown(watched_snapshot)
    assert html.count('class="engine"') == 1
    assert (await shown(watched_snapshot, PageQuery("", (engines[1].id,)))).count('class="engine"') == 2


async def test_an_engine_without_a_value_to_sort_by_is_omitted_alone(watched_snapshot, monkeypatch):
    monkeypatch.setitem(SORTS, "k", lambda engine: {"chat": 3}[engine.target])
    html = await shown(watched_snapshot, PageQuery(sort="k"))
    assert html.count("Cannot be shown") == 1
    assert html.count("aria-expanded") == 1


async def test_an_unknown_engine_in_the_address_has_a_notice(watched_snapshot, engines):
    html = await shown(watched_snapshot, PageQuery("", (engines[0].id, "<gone>")))
    assert "There is no engine <q><bdi>&lt;gone&gt;</bdi></q>" in html
    assert html.count("There is no engine") == 1
    assert f'<a href="./?engine={engines[0].id}" class="chip">Close' in html


LENGTH = Estimated(value=2.92, lower=2.9, upper=2.95)
USED = UsedTokensView(
    tokens=3,
    seconds=9000.0,
    begin=1_789_993_600.0,
    end=1_790_093_600.0,
    running_requests=7.9,
    decode_steps=1000,
    acceptance_length_tokens=LENGTH,
    effective_tokens_per_step=LENGTH,
    estimated_speedup_ratio=Estimated(value=None, lower=None, upper=None),
)
COMPARISON = LatencyComparisonView(
    baseline="2 h without speculation",
    reason=None,
    text="",
    latencies={
        Latency.TIME_PER_OUTPUT_TOKEN: {
            "p95": ComparedQuantileView(
                baseline_seconds=0.03, upper=1.0, text="0.4 to 1", quantiles=("> 10 ms", "25 to 50 ms")
            )
        }
    },
)
SO_FAR = 'data-key="Draft tokens so far"'


def advised(setting, text="", measure="", **more):
    shown = {"speculative_config": "", "complete": True, "obstacles": (), "schedule": (), **more}
    loads = {"lowest_running_requests": None, "highest_running_requests": None}
    return SettingView.of(setting, text=text, measure=measure, **shown, **loads)


BANDS = (LoadBand(1, 7, 4, 2.3, 0.01, 4, 2.3), LoadBand(8, 8, 0, 1.0, 0.02, 4, 0.9))
BY_LOAD = advised(
    SpeculationSetting(4, is_change=True, bands=BANDS),
    speculative_config='{"method": "mtp", "num_speculative_tokens": 4}',
    obstacles=[
        ObstacleView(name=Obstacle.DATA_PARALLEL, text="With data parallelism vLLM ignores the schedule.")
    ],
)
OFF = advised(SpeculationSetting(0, is_change=True), "Switch it off.")
MEASURE = advised(UNKNOWN_SETTING, "Measure it.", "Run it without drafts for ten minutes.")
PROBABLY = "Speculation probably pays: about 1.4 times as fast (0.9 to 2.1 at published costs)."
CHANGE, COPY, SETTING = '<small class="advice change" title="', "Copy</button>", 'data-key="Setting"'
SCROLLS = '<div class="scrolls" tabindex="0" role="group" aria-label="Speed by load">'


@pytest.mark.parametrize(
    ("update", "parts", "absent"),
    [
        ({"windows": (), "state": State.UNREACHABLE}, ["Unreachable", "since the exporter first saw it"], []),
        ({"verdict": Verdict.UNCLEAR, "verdict_text": PROBABLY}, [f'class="verdict unsure" title="{PROBABLY}"'], []),
        ({}, ['class="verdict '], [CHANGE]),
        ({"recommended_tokens": 2, "recommendation": "decrease"}, [CHANGE, 'try <data value="2">2</data>'], []),
        ({"recommended_tokens": 0, "recommendation": "disable"}, [CHANGE, ">try off</small>"], []),
        ({"setting": BY_LOAD}, ["vLLM ignores the schedule", SCROLLS, "--speculative-config &#39;{", COPY], []),
        ({"setting": MEASURE}, ["Run it without drafts for ten minutes."], [COPY]),
        ({"setting": advised(UNKNOWN_SETTING, "No advice yet.")}, [], [SETTING]),
        ({"setting": OFF}, [SETTING, "Switch it off."], []),
        ({"used_tokens": (USED, USED.model_copy(update={"tokens": 5}))}, [SO_FAR, 'data-key="used-5"', "2\u202fh", "21 Sep 12:26 to 22 Sep 16:13 UTC", ">2.95</data>"], []),
        ({"used_tokens": (USED,)}, [], [SO_FAR]),
        ({"latency_comparison": COMPARISON}, ["Time per output token, p95", "10 ms", "0.4 to 1", "below 1 is shorter", "2 h without"], []),
        ({"latency_comparison": COMPARISON.model_copy(update={"latencies": {}, "text": "Not comparable: why."})}, ["Not comparable: why.", "2 h without"], ["below 1 is shorter"]),
    ],
    ids=["unreachable", "unclear", "advice to keep", "advice to change", "advice to switch off", "by load", "to measure", "no advice", "off", "two numbers of tokens", "one number", "a baseline", "no comparable baseline"],
)  # fmt: skip
async def test_an_open_engine_shows_its_state_its_advice_and_its_setting(engines, update, parts, absent):
    view = engines[0].model_copy(update=update)
    html = await shown(query=PageQuery("", (view.id,)), views=[view], trace=lambda _: None)
    assert [part for part in parts if part not in html] == []
    assert [part for part in absent if part in html] == []


@pytest.mark.parametrize(
    ("update", "evaluated", "parts", "absent"),
    [
        ({}, {}, [r"The verdict is by the last 5 min\."], []),
        ({"verdict": Verdict.INSUFFICIENT}, {}, [], ["The verdict is by"]),
        ({}, {"basis": Basis.SHORTER, "seconds": 30.0}, [r"The verdict is by the last 30 s, other figures by 5m\.", r"at least [\d.]+. ?\) last 30 s"], []),
    ],
    ids=["the same time", "no verdict", "a shorter time"],
)  # fmt: skip
async def test_a_verdict_by_another_time_than_the_figures_says_which(
    engines, update, evaluated, parts, absent
):
    by = engines[0].evaluated.model_copy(update=evaluated)
    view = engines[0].model_copy(update={"evaluated": by, **update})
    html = await shown(query=PageQuery("", (view.id,)), views=[view], trace=lambda _: None)
    text = text_of(html).replace("\u202f", " ")
    assert [part for part in parts if not re.search(part, text)] == []
    assert [part for part in absent if part in text] == []


async def test_the_speed_up_of_newer_data_beside_a_verdict_that_stays_says_so(engines):
    speedup = f"{engines[0].evaluated.estimated_speedup_ratio.value:.2f}\u00d7"
    texts = [
        text_of(await shown(views=[engines[0].model_copy(update={"verdict": verdict})]))
        for verdict in (engines[0].verdict, Verdict.HARMFUL)
    ]
    assert [f"now {speedup}" in text for text in texts] == [False, True]


WAIT = CostMeasurement("schedule_in_force", "Wait for 12 requests", "the time until then")
MEASURED = CostMeasurement(
    "plain_period", "Restart it", "ten minutes", "what drafts gain", "observe --for 10m"
)
UNSURE = {"verdict": Verdict.UNCLEAR, "verdict_text": f"{PROBABLY} It pays if a draft token costs less."}


async def test_one_banner_has_the_ways_to_know_of_all_unclear_engines_and_an_open_one_its_own(engines):
    ways = {"a": (WAIT, MEASURED), "b": (replace(MEASURED, paste="observe --for 10m b"),)}
    views = [
        engines[0].model_copy(update={**UNSURE, "id": name, "target": name, "ways_to_know": of_it})
        for name, of_it in ways.items()
    ]
    text = text_of(await shown(views=[*views, engines[1]]))
    banner = text[
        text.index("2 engines are unclear. How to find out, cheapest first") : text.index("Engines ")
    ]
    waiting = "For a: Wait for 12 requests. It takes the time until then; no slowdown. 2 other ways"
    price = "Restart it. It takes ten minutes; what drafts gain. observe --for 10m"
    assert f"{waiting} For a: {price} Copy For b: {price} b Copy" in banner
    for several, number in ((views, 2), (views[1:], 1)):
        own = text_of(await shown(query=PageQuery("", ("b",)), views=several, trace=lambda _: None))
        assert own.count(f"{price} b Copy") == number
        assert "To know it:" not in own


OF_ONE = [{"id": str(number), "target": "chat", "ways_to_know": (WAIT,)} for number in range(8)]
OF_MANY = [
    {"id": each, "target": each, "ways_to_know": (WAIT, replace(MEASURED, paste=f"observe --for 10m {each}"))}
    for each in map(str, range(20))
]


@pytest.mark.parametrize(
    ("updates", "parts", "absent"),
    [
        (OF_ONE, ["For chat: Wait for"], ["open them for details"]),
        (OF_MANY[:4], ["and 1 more engine: open them for details"], []),
        (OF_MANY, ["and 17 more engines: open them for details"], []),
    ],
    ids=["one target", "four targets", "twenty targets"],
)
async def test_the_banner_names_each_target_once_and_counts_the_engines_whose_ways_it_omits(
    engines, updates, parts, absent
):
    views = [engines[0].model_copy(update=UNSURE | update) for update in updates]
    text = text_of(await shown(views=[*views, engines[1].model_copy(update={"target": "other"})]))
    banner = text[text.index("How to find out, ") : text.index("Engines ")]
    assert [part for part in parts if part not in banner] == []
    assert [part for part in absent if part in banner] == []


# Targets and the exporter


async def test_problems_of_the_exporter_are_notices():
    assert 'data-key="exporter"' not in await shown(Snapshot(number=1))
    for problem in ("state_problem", "reload_problem"):
        html = await shown(
            Snapshot(number=1, exporter=[({}, ExporterStatus(**{problem: "targets[0]: <bad>"}))])
        )
        assert "targets[0]: &lt;bad&gt;" in html


async def test_targets_that_are_down_come_first_with_their_error(watched_snapshot):
    labels, status = watched_snapshot.targets[0]
    bad = {"up": False, "engines": None, "error": "refused", "message": "Connection refused"}
    down = replace(status, record=replace(status.record, **bad))
    statuses = {"up": status, **{f"down-{number}": down for number in range(4)}}
    targets = [({**labels, "target": name}, replace(each, name=name)) for name, each in statuses.items()]
    html = await shown(replace(watched_snapshot, targets=targets))
    for text in ("4 targets are down.", "1 of 5 targets up", "… and 1 more, below"):
        assert text in text_of(html)
    table = html[html.index('class="targets') :]
    assert table.index("down-0") < table.index("<bdi>up</bdi>")
    assert "Connection refused; start" in table


# Events


FOUND = replace(DROPPED, type="engine_found", bad=False)
FOUND_50 = [replace(FOUND, id=f"2-{number}", engine_id=f"e{number}") for number in range(50)]
DROPPED_11 = [replace(DROPPED, id=f"3-{number}") for number in range(11)]


@pytest.mark.parametrize(
    ("events", "rows", "parts", "absent"),
    [
        ([replace(DROPPED, time=1.0), *FOUND_50, *DROPPED_11], 12, [], ["Seen for the first time"]),
        (FOUND_50, 1, ["Seen for the first time", "50 engines"], []),
    ],
    ids=["alarms too", "no alarm"],
)
async def test_alarms_come_before_other_events_and_equal_ones_of_many_engines_share_a_row(
    events, rows, parts, absent
):
    html = await shown(events=Events(events), now=260.0)
    section = html[html.index("events-title") : html.index("glossary")]
    assert section.count("<li") == rows
    assert [part for part in parts if part not in section] == []
    assert [part for part in absent if part in section] == []


# Experiments

TIME = SpeedupBasis.TIME_PER_OUTPUT_TOKEN
CLEAR = ArmSpeedupView(value=2.0, lower=1.8, upper=2.2)


def arm(name, *, engines=2, traffic=None, speedup=None, wins=False):
    window = ArmWindowView(
        window="5m", engines=engines, requests=1300, acceptance_length_tokens=2.5, prefix_cache_hit_ratio=None,
        time_to_first_token_seconds={"mean": 0.2, "p50": None, "p95": None}, traffic_ratio=traffic or {},
        speedup_ratio={} if speedup is None else {TIME: speedup},
    )  # fmt: skip
    return ArmView(arm=name, winner={TIME: wins}, windows=(window,))


async def test_arms_are_side_by_side_with_bounds_and_the_winner():
    arms = (arm("off"), arm("eagle", speedup=CLEAR, wins=True))
    html = await shown(experiments=[ExperimentView(experiment="drafter", baseline="off", arms=arms)])
    assert html.index("<bdi>off</bdi>") < html.index("<bdi>eagle</bdi>")
    for text in ("baseline</small>", "winner</span>", "1.80", "2.20"):
        assert text in html
    assert "Winner: eagle is the fastest by time per output token." in text_of(html)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (arm("eagle", engines=0), "has no engine"),
        (arm("eagle", traffic={Traffic.LOAD: 0.72}, speedup=ArmSpeedupView(value=1.2, lower=0.8, upper=1.3, reason=Traffic.LOAD)), "may owe its speed to its traffic: its load is 0.72\u00d7 the baseline's; balance the arms by round robin"),
        (arm("eagle", speedup=CLEAR), "is neither faster nor slower for certain (95 %) over a whole longest window"),
    ],
    ids=["engine", "load", "time"],
)  # fmt: skip
async def test_without_a_winner_the_reason_is_named(other, reason):
    experiment = ExperimentView(experiment="drafter", baseline="off", arms=(arm("off"), other))
    html = await shown(experiments=[experiment])
    assert f"No winner: eagle {reason}." in text_of(html)
    assert "winner</span>" not in html


# Requests


async def test_without_requests_there_is_no_section_or_it_names_the_endpoint():
    assert "requests-title" not in await shown(requests=RequestFindings())
    text = text_of(await shown(requests=RequestFindings(enabled=True)))
    assert "No request was received yet. Send the metrics of vLLM's responses to /api/v1/requests." in text


async def test_requests_of_a_mix_begin_with_those_that_lose_and_are_counted_with_those_that_are_rejected():
    html = await shown(
        requests=replace(
            await mixed_requests(),
            refused=dict.fromkeys(Refusal, 2) | {Refusal.RATE: 3000, Refusal.CONTRADICTORY: 0},
            folded={"request_type": 7, "user": 0},
            sources={RequestSource.METRICS: 7, RequestSource.USAGE: 3},
        )
    )
    section = html[html.index("requests-title") : html.index("targets-title")]
    assert re.search(r'<th scope="row" role="rowheader"><bdi>([^<]*)', section)[1] == "creative"
    text = text_of(section)
    for part in (
        "Mixed workload",
        "Serve creative requests at temperature up to 1",
        " tokens a draft to creative requests, and ",
        "Since the start 10 requests were received; 3 of them report a rate only; rejected: 2 malformed, ",
        ", 3 000 over the rate limit, 2 dropped by the sender, ",
        "; counted as other: 7 by request_type.",
    ):
        assert part in text
    assert len(re.search("rejected: (.*?);", text)[1].split(", ")) == len(Refusal) - 1


async def test_an_acceptance_that_falls_with_the_prompt_names_both_lengths():
    short, long = (
        [RequestRecord("llama", 30, 120, accepted, 4, prompt_tokens=tokens)] * 40
        for accepted, tokens in ((90, 1500), (15, 20_000))
    )
    store = RequestStore(RequestSettings(ingest=True))
    for request in [*short, *long]:
        store.take(request, 1000.0, None)
    text = text_of(await shown(requests=await store.findings((30.0, 300.0), 1000.0)))
    assert (
        "Acceptance falls with the prompt: a draft gives 4.00 tokens at 1,500 prompt tokens, and 1.50 at 20,000."
        in text
    )
    assert "`" not in text[text.index("Acceptance falls") : text.index("Targets")]
