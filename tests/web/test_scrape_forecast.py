from __future__ import annotations

import pytest

from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS, MAX_INTERVAL, TOLERANCE, ScrapeForecast


def forecasts(moments, client="prometheus"):
    forecast = ScrapeForecast()
    return [forecast.next_scrape(client, moment) for moment in moments]


def test_the_third_scrape_of_a_regular_client_tells_the_next_one():
    assert forecasts([100.0, 115.0, 130.0, 145.0]) == [None, None, 145.0, 160.0]


def test_a_scrape_may_be_a_little_early_or_late():
    late = TOLERANCE / 2
    assert forecasts([100.0, 115.0, 130.0 + late]) == [None, None, 145.0 + 2 * late]


@pytest.mark.parametrize("interval", [1.0, MAX_INTERVAL])
def test_an_interval_of_up_to_five_minutes_is_regular(interval):
    assert forecasts([0.0, interval, 2 * interval])[-1] == 3 * interval
    assert forecasts([0.0, 1.1 * MAX_INTERVAL, 2.2 * MAX_INTERVAL])[-1] is None


@pytest.mark.parametrize("moments", [(0.0, 15.0, 25.0), (0.0, 15.0, 45.0), (0.0, 4.0, 15.0, 19.0, 30.0)])
def test_an_irregular_client_has_no_forecast(moments):
    assert set(forecasts(moments)) == {None}


def test_two_clients_with_the_same_interval_have_forecasts_of_their_own():
    forecast = ScrapeForecast()
    for moment in (0.0, 15.0):
        assert forecast.next_scrape("one", moment) is None
        assert forecast.next_scrape("two", moment + 4.0) is None
    assert forecast.next_scrape("one", 30.0) == 45.0
    assert forecast.next_scrape("two", 34.0) == 49.0


def test_the_client_that_scraped_the_longest_time_ago_is_forgotten_first():
    forecast = ScrapeForecast()
    for moment in (0.0, 15.0):
        for number in range(MAX_CLIENTS + 1):
            forecast.next_scrape(str(number), moment)
    assert forecast.next_scrape("0", 30.0) is None

    forecast = ScrapeForecast()
    for moment in (0.0, 15.0):
        for number in range(MAX_CLIENTS):
            forecast.next_scrape(str(number), moment)
    assert forecast.next_scrape("0", 30.0) == 45.0
