"""The rules fire and are silent as in their tests at the shortest and the longest scrape interval, by promtool."""

import re

import pytest
import yaml

from tests.contract.promql import needs, promtool
from tests.contract.rules.shipped import PROMETHEUS
from tests.contract.rules.test_promtool import FILES, narrowed

pytestmark = needs("promtool")

SECONDS = {"15s": 15, "1m": 60}
ALERTS_OF = re.compile(r"\(timestamp\((ALERTS{[^}]*})\)\[(\w+):\w+\]\)\) - \d+$")


def scraped(values, before, interval):
    """Return a series in promtool's notation as it is if it is scraped each ``interval`` seconds."""

    def step(match):
        start, rate, repeats = match.groups()
        samples = round((int(repeats) + 1) * before / interval)
        grows = f"+{float(rate) * interval / before:.10g}" if rate else ""
        return f"{start}{grows}x{samples - 1}"

    def gap(match):
        return f"stale _x{round((int(match[1]) + 1) * before / interval) - 1}"

    if values.startswith("_x"):
        first, _, rest = values.partition(" ")
        return f"_x{round(int(first[2:]) * before / interval)} {scraped(rest, before, interval)}"
    parts = re.findall(r"stale _x\d+|\S+", values)
    return " ".join(
        re.sub(r"stale _x(\d+)", gap, part)
        if "_" in part
        else re.sub(r"([\d.e-]+)(?:\+([\d.e-]+))?x(\d+)", step, part)
        for part in parts
    )


@pytest.mark.parametrize("interval", [5, 60])
@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.stem not in {"days", "drift", "records"}],
    ids=lambda path: path.stem,
)
def test_the_same_alerts_fire_at_any_scrape_interval(path, interval, tmp_path):
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for test in document["tests"]:
        before = SECONDS[test["interval"]]
        test["interval"] = f"{interval}s"
        for series in test["input_series"]:
            series["values"] = scraped(series["values"], before, interval)
        first, _ = test["promql_expr_test"]
        selector, hours = ALERTS_OF.search(first["expr"]).groups()
        first["expr"] = f"group by (kind, model_name, instance, target) (last_over_time({selector}[{hours}]))"
        for sample in first["exp_samples"]:
            sample["value"] = 1
        test["promql_expr_test"] = [first]
    document["evaluation_interval"] = "1m"
    document["rule_files"] = [
        str(PROMETHEUS / name.partition("config/prometheus/")[2]) for name in document["rule_files"]
    ]
    changed = tmp_path / path.name
    changed.write_text(yaml.safe_dump(document), encoding="utf-8")
    status, output = promtool("test", "rules", *narrowed(changed, tmp_path))
    assert status == 0, output
