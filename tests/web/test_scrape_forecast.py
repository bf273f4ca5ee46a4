from __future__ import annotations

from spec_decode_exporter.web.scrape_forecast import MAX_CLIENTS, ScrapeForecast


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
