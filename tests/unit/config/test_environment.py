import pytest

from spec_decode_exporter.config.load import expand

ENVIRON = {"HOST": "vllm", "EMPTY": "", "ODD": "${HOST}"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("http://${HOST}:8000", "http://vllm:8000"),
        ("${HOST}${HOST}", "vllmvllm"),
        ("a${EMPTY}b", "ab"),
        ("$${HOST}", "${HOST}"),
        ("$$", "$"),
        ("$HOST costs 5$", "$HOST costs 5$"),
        ("${ODD}", "${HOST}"),
    ],
)
def test_variables_are_replaced(text, value):
    assert expand(text, ENVIRON) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a ${NOWHERE}", "environment variable NOWHERE is not set; set it, or"),
        *((text, "without a variable") for text in ("${", "${HOST", "${}", "${1}", "${HOST-x}")),
    ],
)
def test_a_reference_without_a_variable_is_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        expand(text, ENVIRON)
