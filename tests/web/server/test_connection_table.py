from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.web.server.connection_table import ConnectionTable


class Connection:
    def __init__(self, address, slow=False):
        self.address, self.slow = address, slow


def table_of(**addresses):
    """Return a table, and its connections by address. Letters are states: idle, busy, slow."""
    table, made = ConnectionTable(), {}
    for address, states in addresses.items():
        for state in states:
            connection = Connection(address, state == "s")
            made.setdefault(address, []).append(connection)
            table.add(connection, address)
            if state != "i":
                table.mark_busy(connection)
    return table, made


def test_a_busy_connection_is_replaced_for_an_address_with_fewer():
    table, made = table_of(hostile="bbbb", prometheus="i")
    assert table.replaceable("prometheus") is made["hostile"][0]


def test_many_addresses_with_one_connection_replace_no_busy_one():
    table, made = table_of(a="b", b="i", c="b")
    assert table.replaceable("d") is made["b"][0]
    table, _ = table_of(a="b", b="s", c="b")
    assert table.replaceable("d") is None


STEP = st.tuples(
    st.sampled_from(["add", "busy", "idle", "discard"]), st.integers(0, 5), st.sampled_from("abc")
)


@given(st.lists(STEP))
def test_a_table_contains_the_connections_added_and_not_discarded(steps):
    table, open_, made = ConnectionTable(), {}, {}
    for step, number, address in steps:
        connection = made.setdefault(number, Connection(address))
        if step == "add" and connection not in open_:
            table.add(connection, address)
            open_[connection] = address
        elif step == "discard":
            table.discard(connection)
            open_.pop(connection, None)
        elif step != "add":
            getattr(table, f"mark_{step}")(connection)
        assert len(table) == len(open_)
        assert set(table) == set(open_)
        assert all((each in table) == (each in open_) for each in made.values())
    for connection in open_:
        table.discard(connection)
    assert (table._idle, table._busy, table.longest_idle()) == ({}, {}, None)
