"""What a parser says of anything it is given, for tests that give it anything."""

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.errors import InputError


def say_of(parse, specimen):
    """The parser's refusal, with what it quotes and what caused it, or what it tells of bad lines; any other error is the test's."""
    try:
        return f"read {getattr(parse(specimen), 'bad_lines', '')}"
    except InputError as error:
        return f"refused {error} {error.first_bytes!r} {error.__cause__}"


def read_page(text):
    return ExpositionReader().read(text)
