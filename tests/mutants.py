"""Change the behaviour of the core in one place at a time: the tests must fail each time.

    python -m tests.mutants [--jobs 2] [PART OF A FILE'S NAME …]

Each mutant runs the tests of its area in a copy of the checkout, up to the first failure. Exit status 1 if one
survives. The table is behaviour, not code: if a package is written again, find each change again.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = Path("exporter/spec_decode_exporter")
AREAS = {
    "window": "tests/unit/window tests/unit/monitor/test_recorded_traces.py tests/contract/test_pins.py",
    "figures": "tests/unit/figures tests/unit/analysis tests/contract/test_pins.py",
    "analysis": "tests/unit/analysis tests/contract/test_pins.py",
    "scrape": "tests/unit/scrape/test_sample.py tests/unit/scrape/test_layout.py tests/contract/test_pins.py",
    "polls": "tests/unit/scrape/test_client.py tests/unit/scrape/test_credentials.py tests/unit/scrape/test_poller.py tests/unit/scrape/test_poll_schedule.py tests/unit/scrape/test_response.py",
    "findings": "tests/unit/findings tests/contract/test_pins.py",
    "experiments": "tests/unit/experiments tests/unit/reports/test_comparison.py tests/unit/figures/test_student_t.py",
    "drops": "tests/unit/drops",
    "learned": "tests/unit/learned",
    "decision": "tests/unit/monitor/test_decision.py tests/unit/monitor/test_engine_monitor.py",
    "targets": "tests/unit/monitor/test_target_monitor.py tests/unit/monitor/test_fleet.py",
    "state": "tests/unit/monitor/test_state_file.py tests/unit/monitor/test_state.py",
    "restarts": "tests/service/test_restart.py tests/service/test_rust_schedule.py tests/service/test_reload_story.py",
    "headline": "tests/unit/views/test_headline.py tests/unit/analysis/test_missing_evidence.py",
    "requests": "tests/unit/requests tests/unit/metrics/test_request_metrics.py",
    "config": "tests/unit/config",
    "core": "tests/unit/core",
    "server": "tests/unit/web/test_server.py tests/unit/web/test_listen.py",
    "security": "tests/unit/web/test_security.py tests/unit/web/test_hosts.py tests/unit/web/test_limits.py",
    "page": "tests/unit/web/test_page.py tests/unit/web/test_query.py tests/unit/views/test_templating.py",
    "app": "tests/unit/app/test_reload.py tests/unit/app/test_exporter_state.py",
    "cli": "tests/unit/cli/test_main.py tests/unit/cli/test_run.py tests/unit/cli/test_process.py",
    "api": "tests/unit/web/api tests/unit/views/test_engine_view.py tests/unit/views/test_group_view.py",
    "pages": "tests/unit/web/test_metrics_page.py tests/unit/web/test_documentation.py",
    "reports": "tests/unit/reports/test_text.py tests/unit/reports/test_exit_status.py tests/unit/reports/test_observation.py tests/unit/reports/test_observation_report.py",
    "outside": "tests/service/test_numbers_from_outside.py",
    "plan": "tests/unit/reports/plan",
    "references": "tests/unit/reports/test_references.py tests/unit/reports/test_comparison.py",
    "history": "tests/unit/history/test_query_api.py tests/unit/history/test_recording.py tests/unit/history/test_history_result.py tests/unit/history/test_baseline_reader.py tests/unit/history/test_history_reader.py",
    "events": "tests/unit/core/test_isolation.py tests/unit/monitor/test_event_log.py tests/unit/monitor/test_events.py tests/unit/monitor/test_summary_log.py tests/unit/monitor/test_request_receiver.py tests/unit/requests/test_change_notifier.py",
    "metrics": "tests/unit/metrics/test_page.py tests/unit/metrics/test_request_metrics.py tests/unit/analysis/test_figure_table.py",
    "middleware": "tests/unit/vllm_middleware",
    "discovery": "tests/unit/discovery",
    "simulator": "tests/unit/simulator/test_vllm_page.py tests/unit/simulator/test_simulated_server.py tests/unit/simulator/test_simulated_engine.py tests/unit/simulator/test_simulation.py",
}


class Mutant(NamedTuple):
    """One change, and the area whose tests must see it."""

    area: str
    file: str
    old: str
    new: str


MUTANTS = (
    # Application: reloads of clients, shared snapshots. Command line: variables, keys, hints. Pages: what is shared and served.
    Mutant("app", "app/reload.py", "if number == self._for_clients:", "if True:"),
    Mutant("app", "app/reload.py", "number = self._for_clients", "number = self._for_clients - 1"),
    Mutant("app", "app/reload.py", "            elif self._error is not None:", "            elif False:"),
    Mutant("app", "app/exporter_state.py", "changes == self._changes", "True"),
    Mutant("app", "app/exporter_state.py", "max(SHARED_SECONDS, 2 * duration)", "SHARED_SECONDS"),
    Mutant("cli", "cli/flags.py", "[*([] if is_default else collected), values]", "[*collected, values]"),
    Mutant("cli", "cli/flags.py", "{**speculation, **own}", "{**own, **speculation}"),
    Mutant("cli", "cli/main.py", "yield _SYNONYMS[name]", "yield from ()"),
    Mutant("cli", "cli/process.py", "if self._unreported or self._size", "if self._size"),
    Mutant("pages", "web/metrics_page.py", "if each.readers or each in shared", "if each in shared"),
    Mutant(
        "pages",
        "web/metrics_page.py",
        "newest.snapshot < snapshot.number",
        "newest.snapshot != snapshot.number",
    ),
    Mutant("pages", "web/documentation.py", "if goal not in known:", "if False:"),
    # Server: heads, unread answers, requests ahead, replaced connections. Security: what is adopted, compared and limited.
    Mutant("server", "web/server.py", "        if self._unread_bytes:", "        if True:"),
    Mutant("server", "web/server.py", "tls._transport if tls else transport", "transport"),
    Mutant("server", "web/server.py", "is_ahead = self._ahead or self._messages", "is_ahead = self._ahead"),
    Mutant("server", "web/server.py", "if count > counts[address] + 1:", "if count > counts[address]:"),
    Mutant(
        "server",
        "web/server.py",
        "        self._give_spare()\n        self._is_closed",
        "        self._is_closed",
    ),
    Mutant("security", "web/security.py", "if not is_quiet or", "if"),
    Mutant(
        "security",
        "web/security.py",
        "            if found.get(key, 0) < strength\n",
        "            if key not in found\n",
    ),
    Mutant("security", "web/security.py", " if self._waiting.total() < MAX_CHECKS else 1", ""),
    Mutant("security", "web/hosts.py", 'or (secure and scheme == "http")', ""),
    Mutant("security", "web/limits.py", "retry_after=1, close=True", "retry_after=1"),
    # Simulator: what a page of each front end shows, restarts, acceptance by position.
    Mutant("simulator", "simulator/vllm_page.py", 'if family.name.endswith("_per_pos"):', "if False:"),
    Mutant("simulator", "simulator/vllm_page.py", "if names and is_merged:", "if False:"),
    Mutant(
        "simulator",
        "simulator/simulated_engine.py",
        "luck < request.survival[accepted]",
        "luck < request.survival[0]",
    ),
    Mutant("simulator", "simulator/simulation.py", "self.restarts += 1", "self.restarts += 2"),
    Mutant(
        "simulator",
        "simulator/simulated_server.py",
        "if not self._simulation.serving and request",
        "if False and request",
    ),
    # Discovery: limits before decoding, what stays when a list fails, precedence, the watch of pods.
    Mutant(
        "discovery",
        "discovery/groups.py",
        "Url.of(url)[:3] != (scheme, name,",
        "Url.of(url)[:1] != (scheme,) and (scheme, name,",
    ),
    Mutant("discovery", "discovery/groups.py", "if characters > MAX_URL_CHARACTERS:", "if False:"),
    Mutant("discovery", "discovery/groups.py", "body.count(character) > limit", "False"),
    Mutant("discovery", "discovery/lists.py", "{path: before[path]} if path in before else {}", "{}"),
    Mutant("discovery", "discovery/lists.py", "targets if is_known else None", "targets"),
    Mutant("discovery", "discovery/lists.py", "() if error.errno in _NO_SUCH_NAME else None", "None"),
    Mutant(
        "discovery", "discovery/discoverer.py", "dict.fromkeys((*in_use, *present))", "dict.fromkeys(present)"
    ),
    Mutant("discovery", "discovery/discoverer.py", "            self.found = found\n", ""),
    Mutant("discovery", "discovery/target.py", "or _size(label) > left", ""),
    Mutant("discovery", "discovery/pods.py", 'self._version = "" if is_expired else self._version', "pass"),
    Mutant("discovery", "discovery/pods.py", "self._failures = 1  # this one", "pass  # this one"),
    Mutant(
        "discovery",
        "discovery/pods.py",
        'version, self._version = self._version, ""',
        "version = self._version",
    ),
    Mutant("discovery", "discovery/kubernetes_api.py", "len(rest) > MAX_LINE_BYTES", "False"),
    Mutant("discovery", "discovery/vllm_command_line.py", "if size > MAX_SCRIPT:", "if False:"),
    Mutant("discovery", "discovery/vllm_command_line.py", "dotted or whole", "whole or dotted"),
    # The middleware inside vLLM.
    Mutant(
        "middleware",
        "vllm_middleware/spec_decode_requests.py",
        "            await send(message)\n            exchange.sent(message)",
        "            exchange.sent(message)\n            await send(message)",
    ),
    Mutant(
        "middleware",
        "vllm_middleware/spec_decode_requests.py",
        "                self.records.extendleft(reversed(batch))\n",
        "",
    ),
    Mutant(
        "middleware",
        "vllm_middleware/spec_decode_requests.py",
        "            answer.usage.completion_tokens_details = None",
        "            pass",
    ),
    Mutant(
        "middleware",
        "vllm_middleware/spec_decode_requests.py",
        "        timer.start()\n",
        "",
    ),
    Mutant(
        "middleware",
        "vllm_middleware/spec_decode_requests.py",
        'self.receiving or message["status"]',
        'message["status"]',
    ),
    # Configuration: secrets, lines of mistakes, duplicates, flags.
    Mutant(
        "config",
        "config/types.py",
        "(isinstance(value, Expanded) and value.is_one_variable)",
        "isinstance(value, Expanded)",
    ),
    Mutant("config", "config/types.py", "_shown(without_query)", "_shown(str)"),
    Mutant("config", "config/source.py", "reversed(node.value) if key", "node.value if key"),
    Mutant("config", "config/source.py", "key.start_mark.line + 1", "node.start_mark.line + 1"),
    Mutant("config", "config/target_settings.py", 'take("url", Url.of(url))', 'take("url", url)'),
    Mutant("config", "config/load.py", "overridden.append((*sections, key))", "overridden.append((key,))"),
    # Increments and resets.
    Mutant("window", "window/poll.py", "TORN_DRAFTS: Final = 16", "TORN_DRAFTS: Final = 160"),
    Mutant("window", "window/poll.py", "2 * max(self.running, 0)", "max(self.running, 0)"),
    Mutant("window", "window/poll.py", "(self.torn if self.positions else 0)", "0"),
    Mutant("window", "window/poll.py", "any(later - earlier > torn", "any(later - earlier > 0"),
    Mutant(
        "window", "window/poll.py", "pairwise((drafts, *positions))", "pairwise((drafts, *positions[:1]))"
    ),
    Mutant("window", "window/poll.py", "[: max(1, len(before.positions))]", "[:]"),
    Mutant(
        "window",
        "window/poll.py",
        "MAX_TOKENS_PER_SECOND: Final = 10**6",
        "MAX_TOKENS_PER_SECOND: Final = 10**7",
    ),
    Mutant(
        "window",
        "window/histograms.py",
        "map(lt, new.counts, old.counts)",
        "map(lt, new.counts[-1:], old.counts[-1:])",
    ),
    Mutant(
        "window",
        "window/history.py",
        "if self.configured_tokens else self._tokens_before",
        "if self.configured_tokens else 0",
    ),
    Mutant("window", "window/poll.py", "> torn * max(1, tokens)", "> torn"),
    Mutant("window", "window/poll.py", "sample.created != before.created", "sample.created == 0"),
    Mutant("window", "window/poll.py", "if before.moment < begin <=", "if 0 < begin <="),
    Mutant("window", "window/poll.py", "max(before.torn, poll.torn)", "poll.torn"),
    # Ring, histograms, history.
    Mutant("window", "window/ring.py", "end - self.keep - margin", "end - self.keep + margin"),
    Mutant("window", "window/ring.py", "needed < most", "needed < 4 * most"),
    Mutant("window", "window/ring.py", "total - totals[0] for", "total for"),
    Mutant("window", "window/ring.py", "max(map(len, engines))", "1"),
    Mutant(
        "window",
        "window/ring.py",
        "self._begins, self._columns = self._begins[old:], [totals[old:] for totals in self._columns]",
        "del self._begins[:old]\n            for totals in self._columns:\n                del totals[:old]",
    ),
    Mutant(
        "window",
        "window/ring.py",
        "range(len(self), -1, -group)[::-1]",
        "range(0, len(self) + 1, group)",
    ),
    Mutant("window", "window/history.py", "length - self._interval / 2", "length - self._interval"),
    Mutant("window", "window/history.py", "MIN_INCREMENTS: Final = 3", "MIN_INCREMENTS: Final = 2"),
    Mutant("window", "window/history.py", "self.seconds < self.length / 2", "self.seconds < self.length / 3"),
    Mutant("window", "window/history.py", "usage / len(engines)", "usage"),
    Mutant("window", "window/history.py", "if len(known) == len(values) else None", "if known else None"),
    Mutant(
        "window", "window/histograms.py", "_GONE_PAGES * self._interval", "9 * _GONE_PAGES * self._interval"
    ),
    Mutant(
        "window", "window/histograms.py", "if all(_is_cumulative(buckets", "if any(_is_cumulative(buckets"
    ),
    Mutant("window", "window/histograms.py", "None if begin is None or", "None if"),
    Mutant(
        "window",
        "window/history.py",
        "tenths = -(-accepted * _TENTHS // drafted)",
        "tenths = accepted * _TENTHS // drafted + 1",
    ),
    Mutant("window", "window/history.py", "max(GONE_POLLS * self._interval, GONE_SECONDS)", "GONE_SECONDS"),
    Mutant(
        "window",
        "window/history.py",
        "        if poll.tokens != before:\n            self.reset_windows()",
        "        if poll.tokens > before:\n            self.reset_windows()",
    ),
    Mutant("window", "window/history.py", "decoded < UNDRAFTED_TOKENS", "decoded < 2 * UNDRAFTED_TOKENS"),
    # Restarts, reloads and the state file.
    Mutant(
        "restarts",
        "monitor/engine_monitor.py",
        "if step.reset and self._assumptions",
        "if False and self._assumptions",
    ),
    Mutant("restarts", "monitor/target_monitor.py", "if was_reset:", "if False:"),
    Mutant("restarts", "monitor/target_monitor.py", "is_rust and not engine.has_schedule", "is_rust"),
    # Asking for a page.
    Mutant("polls", "scrape/poller.py", "due = self.record.histograms_at", "due = 0 * self.record.polls"),
    Mutant("polls", "scrape/poller.py", "None if self._failures_in_a_row else", "None if False else"),
    Mutant("polls", "scrape/poller.py", "* (spent() - before)", "* 0 * before"),
    Mutant("polls", "scrape/poller.py", "self._adapt_interval(now)", ""),
    Mutant(
        "polls",
        "scrape/poller.py",
        "self._end_work()\n        return self._spent_here",
        "return self._spent_here",
    ),
    Mutant("polls", "scrape/credentials.py", "kept is None or kept[0] != versions", "kept is None"),
    Mutant("polls", "scrape/poller.py", "min(required, self._max_ticks)", "required"),
    Mutant("polls", "scrape/filtered.py", "self._expected <= shown.series and", ""),
    Mutant("polls", "scrape/client.py", "if self._pieces < 0:", "if False:"),
    Mutant("polls", "scrape/client.py", "self._is_usable = response.keep_alive", "self._is_usable = True"),
    Mutant("polls", "scrape/client.py", "elif self.received - len(self._body) > MAX_FRAMING:", "elif False:"),
    Mutant("polls", "scrape/client.py", "url[:3] == self._origin", "True"),
    Mutant(
        "polls",
        "scrape/client.py",
        "or self._ended.done():\n            self.abort()",
        "or self._ended.done():",
    ),
    Mutant("polls", "scrape/credentials.py", "text.isascii() and text.isprintable()", "text.isascii()"),
    Mutant("state", "monitor/state_file.py", "if rest or len(lines) != int(number)", "if rest"),
    Mutant(
        "state",
        "monitor/state_file.py",
        "head[2] in (None, *self._writers)",
        "head[2] in (None, self._writer)",
    ),
    Mutant("state", "monitor/state_file.py", "            self._set_aside(place)\n", ""),
    Mutant("state", "monitor/state.py", "return -_CLOCK_SECONDS <= now - seen", "return now - seen"),
    Mutant(
        "state", "monitor/state.py", "self._forget(next(iter(own)))", "self._forget(next(iter(self._kept)))"
    ),
    Mutant("state", "monitor/state.py", "if self.engines.known(engine) is None:", "if True:"),
    # Reader.
    Mutant("scrape", "scrape/sample.py", "if not 0 <= value < MAX_COUNT", "if not -1 <= value < MAX_COUNT"),
    Mutant("scrape", "scrape/sample.py", "total += round(value * scale)", "total += int(value * scale)"),
    Mutant("scrape", "scrape/sample.py", "created = max((values[place]", "created = min((values[place]"),
    Mutant("scrape", "scrape/sample.py", "= min(meaning.age, newest.get", "= max(meaning.age, newest.get"),
    Mutant("scrape", "scrape/sample.py", "lowest[name] = min(", "lowest[name] = max("),
    Mutant(
        "scrape",
        "scrape/sample.py",
        "is_open_metrics and EngineMark.CREATED not",
        "is_open_metrics or EngineMark.CREATED not",
    ),
    Mutant("scrape", "scrape/sample.py", "if gauge in _ADDED else", "if gauge not in _ADDED else"),
    Mutant("scrape", "scrape/sample.py", "<= self._layout_bytes", "<= 10 * self._layout_bytes"),
    Mutant("scrape", "scrape/sample.py", "key = layout.starts, len(layout.places)", "key = layout.starts, 0"),
    Mutant("scrape", "scrape/layout.py", "start if start.strip() else _NEVER", "start"),
    Mutant(
        "scrape", "scrape/layout.py", "places[series] = number, column", "places[series] = number, column + 1"
    ),
    Mutant("scrape", "scrape/layout.py", "all(map(bytes.startswith, lines, starts))", "True"),
    # Figures.
    Mutant(
        "figures",
        "figures/positions.py",
        "pairwise((self._drafts, *self._accepted, 0))",
        "pairwise((self._drafts, *self._accepted, *self._accepted[-1:]))",
    ),
    Mutant("figures", "figures/positions.py", "sum(sum(row[:-1]) for row in rows)", "sum(map(sum, rows))"),
    Mutant("figures", "figures/positions.py", "/ (len(self) - position), 0.0)", "/ len(self), 0.0)"),
    Mutant(
        "figures", "figures/window_figures.py", "steps = max(tokens - accepted, drafts)", "steps = tokens"
    ),
    Mutant("figures", "figures/window_figures.py", "min(drafts, steps), drafted", "drafts, drafted"),
    Mutant(
        "figures",
        "figures/quantile.py",
        "(finite[place - 1], buckets.counts[place - 1]) if place",
        "(finite[place], buckets.counts[place - 1]) if place",
    ),
    # Bounds.
    Mutant("figures", "figures/estimate.py", "_GROWTH: Final = 0.6", "_GROWTH: Final = 0.61"),
    Mutant(
        "figures", "figures/estimate.py", "LIVES_PER_COSINE: Final = 3.3", "LIVES_PER_COSINE: Final = 3.0"
    ),
    Mutant("figures", "figures/estimate.py", "place + 0.5", "place"),
    Mutant(
        "figures",
        "figures/estimate.py",
        "_error_of_sum(residuals, number) / total, min_error",
        "_error_of_sum(residuals, number) / total, 0.0",
    ),
    Mutant("figures", "figures/window_figures.py", "running * len(activity) / busy, 1.0", "running, 1.0"),
    # Cost, speed-up, depth, verdict, advice.
    Mutant("analysis", "analysis/cost.py", "min(linear.low, curved.low)", "linear.low"),
    Mutant(
        "analysis",
        "analysis/cost.py",
        "1.0 if self.architecture is Architecture.DENSE else sqrt(factor)",
        "1.0",
    ),
    Mutant(
        "analysis",
        "analysis/cost.py",
        "lower, higher = min(factor, 1.0), max(factor, 1.0)",
        "lower, higher = min(factor, 1 / factor), max(factor, 1 / factor)",
    ),
    Mutant(
        "analysis",
        "analysis/cost.py",
        "max(token.guess, min(token.high, _FULL_STEP",
        "max(token.guess, max(token.high, _FULL_STEP",
    ),
    Mutant(
        "analysis",
        "analysis/window_evaluation.py",
        "possible = (1 / longest, max(1.0",
        "possible = (0.5 / longest, max(1.0",
    ),
    Mutant(
        "analysis",
        "analysis/window_evaluation.py",
        "* sqrt(self.total.drafts or 0) / plain",
        "* 0.0 / plain",
    ),
    Mutant(
        "analysis",
        "analysis/depth.py",
        "range(1, tokens - self.known + 1)",
        "range(1, tokens - self.known)",
    ),
    Mutant(
        "analysis",
        "analysis/depth.py",
        "self.speedup(price, tokens) * self._kept >= 1",
        "self.speedup(price, tokens) >= 1",
    ),
    Mutant(
        "analysis",
        "analysis/depth.py",
        "speedups[best] - self.error(price, tokens, best)",
        "speedups[best]",
    ),
    Mutant(
        "analysis",
        "analysis/depth.py",
        "length >= WHOLE_DRAFTS * self.known",
        "length >= 0.9 * WHOLE_DRAFTS * self.known",
    ),
    Mutant(
        "analysis",
        "analysis/depth.py",
        "coverage = self._coverage if searches else 1.0",
        "coverage = self._coverage",
    ),
    Mutant("analysis", "analysis/window_evaluation.py", "requests < MIN_VERDICT_REQUESTS", "requests < 0"),
    Mutant(
        "analysis",
        "analysis/verdict.py",
        "Verdict.HARMFUL if speedup.is_bounded else Verdict.POOR",
        "Verdict.HARMFUL",
    ),
    Mutant(
        "analysis",
        "analysis/verdict.py",
        "if not _sampling_decides(speedup, even):",
        "if _sampling_decides(speedup, even):",
    ),
    Mutant(
        "analysis",
        "analysis/end_to_end.py",
        "BASELINE_ERROR: Final = 0.10",
        "BASELINE_ERROR: Final = 0.11",
    ),
    Mutant(
        "analysis",
        "analysis/end_to_end.py",
        "sum(self.bounds.lower >= end for end in ends)",
        "sum(self.bounds.upper >= end for end in ends)",
    ),
    Mutant(
        "analysis",
        "analysis/window_evaluation.py",
        "if self.verdict is Verdict.HARMFUL:\n            return all(",
        "if self.verdict is Verdict.HARMFUL:\n            return any(",
    ),
    Mutant(
        "analysis",
        "analysis/load_bands.py",
        "stepped = best._replace(steps=best.steps + 1)",
        "stepped = best",
    ),
    Mutant(
        "analysis",
        "analysis/load_bands.py",
        "_losses(guess), _losses(low), _losses(high)",
        "_losses(guess), _losses(guess)",
    ),
    Mutant(
        "analysis",
        "analysis/recommended_setting.py",
        "last is None or last.changes != known.changes",
        "last is None",
    ),
    Mutant(
        "analysis",
        "analysis/evaluation.py",
        "if is_shorter and shorter.contradicts(chosen):",
        "if False:",
    ),
    # Drops.
    Mutant("drops", "drops/noise.py", "return total > limit", "return total > 1.1 * limit"),
    Mutant("drops", "drops/noise.py", "(allan + found[-1].value) / 2", "(allan + found[-1].value)"),
    Mutant("drops", "drops/noise.py", "min(0.0, self.sum) ** 2", "self.sum**2"),
    Mutant("drops", "drops/sums.py", "if units >= MIN_UNITS else 0.0", "if units >= 0 else 0.0"),
    Mutant(
        "drops", "drops/detector.py", "exp(-interval.seconds / settings.memory)", "exp(-1 / settings.memory)"
    ),
    Mutant(
        "drops", "drops/detector.py", "NORMAL_SPAN if dropped else self.settings.lag", "self.settings.lag"
    ),
    Mutant(
        "drops",
        "drops/detector.py",
        "return baseline.mean - allowance - error",
        "return baseline.mean - allowance + error",
    ),
    Mutant(
        "drops",
        "drops/detector.py",
        "cusum.sum = min(cusum.sum, limit / 2)",
        "cusum.sum = min(cusum.sum, limit)",
    ),
    Mutant("drops", "drops/detector.py", "if max(moments) > state.time.elapsed or not", "if not"),
    Mutant("drops", "drops/detector.py", " or not (state.found is None or state.drop.units):", ":"),
    Mutant("drops", "drops/detector.py", "or self.policy is not self._updated_for", "or False"),
    Mutant("drops", "drops/detector.py", "if usual is None and state.found is not None:", "if False:"),
    Mutant(
        "drops",
        "drops/detector.py",
        "MIN_BASELINE_SECONDS: Final = 2400.0",
        "MIN_BASELINE_SECONDS: Final = 4800.0",
    ),
    Mutant("drops", "drops/detector.py", "min(state.baseline.length, usual or inf)", "state.baseline.length"),
    Mutant(
        "drops",
        "drops/drops.py",
        "self._sudden.shared_by = 1 if steps is None else 2",
        "self._sudden.shared_by = 1",
    ),
    Mutant("drops", "drops/detector.py", "self._updated = state, [], [], 0.0", "_ = state, [], [], 0.0"),
    # Requests.
    Mutant(
        "requests",
        "requests/record.py",
        "record.draft_tokens > record.tokens * record.drafts",
        "record.draft_tokens > record.tokens * record.drafts + 1",
    ),
    Mutant("requests", "requests/record.py", "if metrics:", "if metrics and not usage:"),
    Mutant("requests", "requests/cells.py", "percent * (below[-1] - 1), 100)", "percent * below[-1], 101)"),
    Mutant("requests", "requests/cells.py", "number / (number - 1) * squares", "squares"),
    Mutant("requests", "requests/cells.py", "or request.source is RequestSource.USAGE", ""),
    Mutant(
        "requests",
        "requests/cells.py",
        "(number + 1) * CELL_SECONDS > moment",
        "number * CELL_SECONDS > moment",
    ),
    Mutant("requests", "requests/cells.py", "if number >= first:", "if True:"),
    Mutant("requests", "requests/mixture.py", "<= DEPTH_QUANTILE", "<= 0.0"),
    Mutant(
        "requests",
        "requests/findings.py",
        "if squares <= variance * freedom * (1 - ninth + _Z99 * sqrt(ninth)) ** 3:",
        "if False:",
    ),
    Mutant(
        "requests",
        "requests/store.py",
        "number >= max(1, TAKEOVER_FACTOR * held[old])",
        "number >= held[old]",
    ),
    Mutant("requests", "requests/store.py", "max(self._began, first * CELL_SECONDS)", "self._began"),
    # Metrics.
    Mutant("metrics", "metrics/page.py", "if not isfinite(number):", "if False:"),
    Mutant("metrics", "metrics/page.py", "if self._now() >= until:", "if False:"),
    Mutant("metrics", "metrics/page.py", "metric.reduced or metric.windows", "metric.windows"),
    Mutant("metrics", "metrics/page.py", "if names and own not in names:", "if False:"),
    Mutant("metrics", "metrics/metric.py", "_LONGEST: Final = slice(-1, None)", "_LONGEST: Final = slice(1)"),
    Mutant("metrics", "metrics/subject.py", "[*found.since_start, *windows]", "found.since_start"),
    Mutant("metrics", "analysis/figure_table.py", "each * window.seconds / covered", "each"),
    # Findings.
    Mutant("findings", "findings/findings.py", "share, DEAD)", "share, 2 * DEAD)"),
    Mutant("findings", "findings/findings.py", "before * (reached - ended)", "before * reached"),
    Mutant(
        "findings",
        "findings/findings.py",
        "is_open = not is_bad if depth is None else depth.tokens > context.tokens",
        "is_open = not is_bad",
    ),
    Mutant(
        "findings",
        "findings/findings.py",
        "counted = total.decode_steps + total.accepted_tokens",
        "counted = total.accepted_tokens",
    ),
    Mutant(
        "findings", "findings/finding.py", "buckets.counts[-1] < TAIL_OBSERVATIONS", "buckets.counts[-1] < 2"
    ),
    Mutant("findings", "findings/findings.py", "max(even, 0.0)", "even"),
    Mutant(
        "window",
        "window/poll.py",
        "drafted <= tokens * (drafts + self.torn)",
        "drafted <= tokens * drafts",
    ),
    # Targets, and the pace of evaluations.
    Mutant(
        "targets", "monitor/target_monitor.py", "if engine.is_urgent or self._is_due(", "if self._is_due("
    ),
    Mutant("targets", "monitor/target_monitor.py", "self._shared.places_taken / EVAL", "1 / EVAL"),
    Mutant("targets", "monitor/target_monitor.py", "surplus += not is_old", "surplus += 1"),
    Mutant("targets", "monitor/target_monitor.py", "characters <= MAX_NAMES_TOTAL", "True"),
    Mutant(
        "targets",
        "monitor/target_monitor.py",
        "has_places = shared.places_taken + required <= shared.limit",
        "has_places = True",
    ),
    Mutant("targets", "monitor/target_monitor.py", "self._take_places(-self._places)", "pass"),
    Mutant(
        "targets", "monitor/fleet.py", "return seen[target.found_by] if target.found_by else 0", "return 0"
    ),
    Mutant("targets", "monitor/fleet.py", "if targets is not self._wanted:", "if False:"),
    # The engine monitor, and what is shown.
    Mutant(
        "decision",
        "monitor/engine_monitor.py",
        "confirmed = suspected & self._suspected",
        "confirmed = suspected",
    ),
    Mutant(
        "decision",
        "monitor/engine_monitor.py",
        "changed_at - self._changed_before > self",
        "changed_at - self._changed_at > self",
    ),
    Mutant("decision", "monitor/engine_monitor.py", "if is_stalled != was_stalled or (", "if ("),
    Mutant(
        "decision",
        "monitor/engine_monitor.py",
        "Decision() if is_stalled or was_stalled else",
        "Decision() if is_stalled else",
    ),
    Mutant(
        "decision", "monitor/engine_monitor.py", "self.is_urgent |= bool(drops)", "self.is_urgent |= False"
    ),
    Mutant(
        "decision",
        "monitor/engine_monitor.py",
        "now - self._costs_at >= COSTS_SECONDS",
        "now - self._costs_at >= 0",
    ),
    Mutant(
        "decision", "monitor/decision.py", "STAYED_SECONDS: Final = 180.0", "STAYED_SECONDS: Final = 60.0"
    ),
    Mutant("decision", "monitor/decision.py", "return is_first and not is_better", "return is_first"),
    Mutant(
        "decision",
        "monitor/decision.py",
        "(decision.verdict in _BAD_NEWS or not may_pay)",
        "decision.verdict in _BAD_NEWS",
    ),
    Mutant(
        "decision",
        "monitor/decision.py",
        "_BAD_NEWS: Final = {Verdict.UNCLEAR, *NOT_PAYING}",
        "_BAD_NEWS: Final = {*NOT_PAYING}",
    ),
    Mutant(
        "decision",
        "monitor/decision.py",
        "in (_printed(before), _printed(self._shown))",
        "in (_printed(self._newest), _printed(self._shown))",
    ),
    Mutant("decision", "monitor/decision.py", "max(SETTING_SECONDS, longest)", "SETTING_SECONDS"),
    # Learned costs and baselines.
    Mutant(
        "learned", "learned/step_cost.py", "min(max(free.ratio(LOAD)[0], low), high)", "free.ratio(LOAD)[0]"
    ),
    Mutant("learned", "learned/step_cost.py", "free.inflation(SHARE, gram) > MAX_INFLATION", "False"),
    Mutant("learned", "learned/step_cost.py", "prefill > MAX_PREFILL * free.coefficients[0]", "False"),
    Mutant("learned", "learned/step_cost.py", "_INSTRUMENTS[prefills])", "prefills)"),
    Mutant("learned", "learned/step_cost.py", "polls, SHARE_PROMPT)", "polls, PROMPT)"),
    Mutant("learned", "learned/step_cost.py", "if source.times else MIN_SECONDS)", "if source.times else 1)"),
    Mutant("learned", "learned/step_cost.py", "found.coefficients[-1] >= 0", "found.coefficients[-1] >= -1"),
    Mutant("learned", "learned/steps.py", "uncached=(before + rate) / 2", "uncached=rate"),
    Mutant("learned", "learned/steps.py", "its.preemptions + self._preemptions", "its.preemptions"),
    # API: parameters, pages of events, dropped requests, groups of engines.
    Mutant("api", "web/endpoint.py", "if len(query) > MAX_PARAMETERS:", "if False:"),
    Mutant("api", "web/endpoint.py", "elif len(texts) > 1 and not parameter.repeats:", "elif False:"),
    Mutant("api", "web/endpoint.py", "        problem.force_close()", "        pass"),
    Mutant("api", "web/api.py", "too_costly = min(dropped, too_costly)", "pass"),
    Mutant("api", "web/api.py", "else chosen[-limit:]", "else chosen[:limit]"),
    Mutant("api", "views/engine_view.py", "recommended=each == best", "recommended=False"),
    Mutant(
        "api", "views/fleet_view.py", "if len({len(its.positions) for its in counted}) == 1", "if counted"
    ),
    Mutant("learned", "learned/baseline.py", "self.ended or other.ended", "self.ended"),
    Mutant("learned", "learned/learned.py", "in saved.plain.places.items()", "in ()"),
    Mutant("learned", "learned/learned.py", "in saved.depths.items()", "in ()"),
    Mutant("learned", "learned/time_saved.py", "if not self.today.includes(wall):", "if False:"),
    Mutant("learned", "learned/time_saved.py", "elif today.includes(self.today.since):", "else:"),
    Mutant("learned", "learned/time_saved.py", "if speedup is None or seconds <= 0:", "if seconds <= 0:"),
    Mutant("decision", "monitor/engine_monitor.py", "if is_drafting else None", "if windows else None"),
    Mutant("decision", "monitor/engine_monitor.py", " and not is_overloaded", ""),
    Mutant("decision", "monitor/engine_monitor.py", "            self._count_time(None)\n", ""),
    Mutant("decision", "learned/learned.py", "self.saved.restore(state.today)", "pass"),
    Mutant(
        "headline",
        "views/headline.py",
        "is_excluded = its.verdict in PAYING and its.is_excluded",
        "is_excluded = False",
    ),
    Mutant(
        "headline",
        "views/headline.py",
        "(day := engine.snapshot.today).includes(now)",
        "(day := engine.snapshot.today)",
    ),
    Mutant("headline", "views/headline.py", "if bounds == inf and verdict == inf:", "if False:"),
    Mutant("headline", "analysis/missing_evidence.py", "if length <= longest else inf", ""),
    Mutant("learned", "learned/step_cost.py", "except ArithmeticError:", "except KeyError:"),
    # Experiments and references.
    Mutant(
        "experiments",
        "reports/comparison.py",
        "hypot(after.value - after.lower, before.upper - before.value)",
        "after.value - after.lower",
    ),
    Mutant("references", "reports/comparison.py", "beyond_chance is not False", "beyond_chance is True"),
    Mutant(
        "references", "reports/comparison.py", "figure.divided(number) if key in LOADS else figure", "figure"
    ),
    Mutant("references", "reports/references.py", 'document.get("checksum") != _checksum(data)', "False"),
    Mutant("plan", "reports/plan/deployment_plan.py", "fits=0 < cache >= known", "fits=0 < cache"),
    Mutant(
        "plan",
        "reports/plan/deployment_plan.py",
        "zip((min, max), (cost.low, cost.high)",
        "zip((min, max), (cost.guess, cost.guess)",
    ),
    Mutant("plan", "reports/plan/deployment_plan.py", "(1 - _TOLERANCE) * largest", "largest"),
    Mutant(
        "plan", "reports/plan/model_sizes.py", "1 - (1 - self.expert_share) ** tokens", "self.expert_share"
    ),
    Mutant("plan", "reports/plan/checkpoint.py", "files >= counted + modules // 2", "False"),
    Mutant("experiments", "experiments/arm.py", "passing * equal, passing * life", "passing, passing"),
    Mutant("experiments", "figures/student_t.py", "sqrt(sum(variances))", "sqrt(max(variances))"),
    Mutant("experiments", "experiments/experiment.py", "and whole[faster].lower > 1.0\n", "\n"),
    Mutant(
        "experiments",
        "experiments/experiment.py",
        "        and _is_faster(arms[faster].windows[-1], arms[slower].windows[-1], _DECODING)\n",
        "",
    ),
    Mutant(
        "experiments", "experiments/experiment.py", "else arm.speedups_over(other))", "else arm.speedups)"
    ),
    Mutant("experiments", "experiments/traffic.py", "estimate.lower * lower", "estimate.lower"),
    Mutant("experiments", "experiments/traffic.py", "if each), key=_distance", "if each), key=float"),
    Mutant("experiments", "experiments/traffic.py", "if len(known) < len(traffic):", "if False:"),
    Mutant(
        "experiments",
        "experiments/arm.py",
        "ratio(other._length_at(depth), self._length_at(depth))",
        "ratio(self._length_at(depth), other._length_at(depth))",
    ),
    Mutant("experiments", "experiments/arm.py", "pace.value / mix", "pace.value"),
    # Numbers from outside, URLs, files, recurring failures.
    Mutant("core", "core/numbers.py", "if abs(value) <= MAX_NUMBER else None", "if value == value else None"),
    Mutant("core", "core/numbers.py", "if len(text) <= _MAX_DIGITS + 1 else MAX_INTEGER + 1", ""),
    Mutant("core", "core/urls.py", 'removesuffix(f":{PORTS[self.scheme]}")', 'removesuffix(":80")'),
    Mutant("core", "core/urls.py", "return self._replace(target=f", "return self._replace(target="),
    Mutant("core", "core/urls.py", "len(host) > _MAX_HOST", "len(host) > 9 * _MAX_HOST"),
    Mutant(
        "core",
        "core/files.py",
        "found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino",
        "found.st_size, 0, 0, 0",
    ),
    Mutant("core", "core/recurring.py", "return reason != before", "return before is None"),
    Mutant("core", "core/recurring.py", "2.0 ** (min(failures, 64) - 1)", "2.0 ** (failures - 1)"),
    Mutant("core", "core/recurring.py", "min(self._burst, self._left", "(self._left"),
    Mutant("core", "core/tasks.py", "copy_context().run, function", "function"),
    Mutant(
        "history",
        "history/query_api.py",
        "_Time = Annotated[float, Meta(ge=0, le=MAX_UNIX)]",
        "_Time = float",
    ),
    Mutant("history", "history/query_api.py", "if first <= pair[0] <= last", "if first <= pair[0]"),
    Mutant(
        "history", "history/query_api.py", "value if -MAX_NUMBER <= value <= MAX_NUMBER else nan", "value"
    ),
    Mutant("history", "history/history_slots.py", "if len(self.slots) > MAX_SLOTS:", "if False:"),
    Mutant("history", "history/history_pages.py", "if engines > MAX_ENGINES:", "if False:"),
    Mutant("history", "history/baseline_reader.py", "if 0 <= value < MAX_COUNT:", "if True:"),
    Mutant("history", "history/baseline_reader.py", "if has_worked and not (", "if has_worked or not ("),
    Mutant(
        "history", "history/history_slots.py", "if is_next or is_gap or is_reset:", "if is_next or is_reset:"
    ),
    Mutant("history", "history/history_result.py", "speedup >= _ENOUGH * max(", "speedup >= max("),
    Mutant("history", "history/history_result.py", "slot.begin < time + SIDE_SECONDS", "True"),
    # Reports: escaping, what a terminal gets, the end of a hopeless observation, exit status.
    Mutant("reports", "reports/text.py", "each if each.isprintable() else", "each if True else"),
    Mutant("reports", "reports/text.py", "max(map(len, _TICKS.findall(text)), default=0) + 1", "1"),
    Mutant("reports", "reports/text.py", 'not environ.get("NO_COLOR")', "True"),
    Mutant("reports", "reports/text.py", "(?!\\d+[.)](?: |$))[^\\W_]", "\\S"),
    Mutant(
        "reports", "reports/templates/observation.md", "name(event_text(event.type", "(event_text(event.type"
    ),
    Mutant(
        "reports",
        "reports/observation.py",
        "if all(poller.record.up is False",
        "if any(poller.record.up is False",
    ),
    Mutant("reports", "reports/observation.py", "poller.record.last_success is not None", "False"),
    Mutant("reports", "reports/exit_status.py", "if not _has_bounds(engine):", "if False:"),
    Mutant("outside", "reports/saved_snapshot.py", "number is not None and number < 0", "False"),
    Mutant("outside", "reports/saved_snapshot.py", "Field(ge=1e-6, le=1e6)", "Field()"),
    Mutant(
        "history",
        "history/recording.py",
        "t: Annotated[float, Meta(ge=-MAX_MOMENT, le=MAX_MOMENT)]",
        "t: float",
    ),
    # Events, isolation, summary lines, costs of requests.
    Mutant("events", "core/isolation.py", "> RECOVERED_AFTER", "> 0"),
    Mutant("events", "core/isolation.py", "if now - at <= FORGOTTEN_AFTER", "if at"),
    Mutant("events", "monitor/events.py", 'startswith("info")', 'endswith("info")'),
    Mutant(
        "events",
        "monitor/event_log.py",
        "EVENTS_PER_ENGINE * self.engines",
        "EVENTS_PER_ENGINE * MAX_ENGINES",
    ),
    Mutant("events", "monitor/event_log.py", "budget.omitted += 1", "budget.omitted = 1"),
    Mutant("events", "monitor/event_log.py", "number < before or not is_own", "number < before"),
    Mutant("events", "monitor/summary_log.py", "before.tokens == its.tokens", "before.tokens"),
    Mutant("events", "monitor/request_receiver.py", "max(highs)", "highs[0]"),
    Mutant(
        "events", "requests/change_notifier.py", "conditions ^ self._emitted", "conditions - self._emitted"
    ),
    Mutant("page", "web/fleet.py", "key=lambda engine: not engine.is_alarming", "key=lambda _: 0"),
    Mutant("page", "web/fleet.py", "            fleet.unknown.discard(id_of(labels))\n", ""),
    Mutant("page", "web/fleet.py", "event.id if is_important(event) else group", "event.id"),
    Mutant("page", "web/fleet.py", "key=lambda place: not is_important(rows[place][-1])", "key=int"),
    Mutant(
        "page",
        "web/query.py",
        "return (key, value) in terms",
        "return any(value in each for _, each in terms)",
    ),
    Mutant("page", "web/query.py", "if engine.standing is engine.verdict:", "if True:"),
    Mutant("page", "web/page.py", "key=lambda view: view[0]", "key=lambda _: 0"),
    Mutant("page", "web/templates/fleet.html", "engine.standing is not sameas engine.verdict", "false"),
    Mutant(
        "page",
        "web/templates/summary.html",
        "exporter.problem or exporter.reload_problem",
        "exporter.problem",
    ),
    Mutant("page", "views/templating.py", "autoescape=html,", "autoescape=False,"),
    Mutant("page", "views/templating.py", "undefined=StrictUndefined,", ""),
)


def survives(mutant: Mutant) -> bool:
    """Return whether the tests of the area pass with the change."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        ignored = shutil.ignore_patterns(".git", ".venv", ".e2e", "*_cache", "__pycache__", "node_modules")
        shutil.copytree(ROOT, copy, ignore=ignored)
        path = copy / PACKAGE / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.file}: `{mutant.old}` occurs {text.count(mutant.old)} times, not once")
        path.write_text(text.replace(mutant.old, mutant.new))
        tests = AREAS[mutant.area].split()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        if done.returncode > 1:  # neither passed nor failed: the tests did not run
            raise SystemExit(f"{mutant.file}: the tests of {mutant.area} did not run:\n{done.stdout[-2000:]}")
        return done.returncode == 0


def main() -> None:
    """Run the mutants; print the fate of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("parts", nargs="*")
    arguments = parser.parse_args()
    chosen = [
        each for each in MUTANTS if not arguments.parts or any(part in each.file for part in arguments.parts)
    ]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        fates = pool.map(survives, chosen)
        survivors = 0
        for mutant, survived in zip(chosen, fates, strict=True):
            survivors += survived
            print(
                "SURVIVES" if survived else "seen",
                mutant.file,
                "|",
                mutant.old.strip().rpartition("\n")[2],
                "->",
                mutant.new.strip().rpartition("\n")[2],
                flush=True,
            )
    print(f"{len(chosen)} mutants, {survivors} survive")
    raise SystemExit(survivors > 0)


if __name__ == "__main__":
    main()
