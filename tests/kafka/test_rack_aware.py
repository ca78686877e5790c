"""The committed answers of the built-in partitioner are those that kafka-clients 4.4.0 gives."""

from tests.lab.rack_aware.__main__ import ANSWERS, ask_kafka


def test_the_real_class_answers_as_committed():
    assert ask_kafka() == ANSWERS.read_text(encoding="ascii")
