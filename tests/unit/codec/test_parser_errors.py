"""What a parser raises is an `InputError` that repeats nothing, whatever it was. `tests/lab/fuzz` gives parsers anything."""

import pytest

from pipeline.errors import MOST_REASON, InputError, parser


@pytest.mark.parametrize(
    "failure",
    [ValueError, KeyError, OverflowError, UnicodeError, RecursionError, MemoryError, TypeError, AttributeError],
)
def test_whatever_a_parser_raises_becomes_an_input_error_that_repeats_nothing(failure):
    @parser
    def parse_something(text, *, path=None):
        raise failure(text)

    with pytest.raises(InputError, match="parse_something cannot read it") as raised:
        parse_something("secret", path="file")
    assert raised.value.path == "file"
    assert "secret" not in str(raised.value)


def test_a_reason_has_a_bound():
    assert len(InputError("x" * 10_000).reason) == MOST_REASON


@pytest.mark.parametrize("failure", [OSError, InputError])
def test_errors_of_files_and_input_pass_as_they_are(failure):
    @parser
    def parse_something(_):
        raise failure("as it is")

    with pytest.raises(failure, match="as it is"):
        parse_something("")
