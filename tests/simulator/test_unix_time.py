from __future__ import annotations

from spec_decode_exporter.simulator.unix_time import UnixTime


def test_at_double_speed_two_simulated_seconds_are_one_second_of_unix_time():
    assert UnixTime(wall=1000.0, moment=50.0, speed=2.0).of(60.0) == 1005.0


def test_simulation_before_the_start_of_the_server_is_in_the_past():
    assert UnixTime(wall=1000.0, moment=50.0).of(0.0) == 950.0
