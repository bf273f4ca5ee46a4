from spec_decode_exporter.core import memory


def test_unused_memory_can_be_returned_with_any_library_of_c(monkeypatch):
    memory.return_memory()
    monkeypatch.setattr(memory, "CDLL", lambda _: object())
    memory.return_memory()
