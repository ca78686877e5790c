"""Values that no delivery, calendar or file system takes are refused on loading; defaults that follow other settings."""

import pytest

from pipeline.config_file import load_config
from pipeline.errors import ConfigError

SOUND = "warehouse: w\noutbox: o\nclusters:\n  demo: {sources: [{kind: log_directories, paths: [b]}]}\n"
SERVER = "mail: {smtp: {host: h, port: 25, tls: none, timeout_s: %s}}\n"
HOOK = "mail: {webhooks: [{name: a, url_variable: A, timeout_s: %s}]}\n"
ALERTS = "mail: {alertmanagers: [{url: 'http://a:1', timeout_s: %s}]}\n"
LONG = ("inf", ".inf", "nan", "1e308", "1e10", "3601", "0")
NAME = "a cluster's name has 1 to 200 characters"


def named(name):
    return SOUND.replace("demo", name)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        *((SOUND + section % value, "5:", "timeout_s: ") for section in (SERVER, HOOK, ALERTS) for value in LONG),
        (SOUND + "candidates: " + "[" * 3000 + "]" * 3000, "5:", "more than 50 levels"),
        (SOUND + "candidates: " + "{a: " * 3000 + "}" * 3000, "5:", "more than 50 levels"),
        (SOUND.replace("warehouse: w", "warehouse: ~nosuchuser/x"), "1:1", "no such user"),
        (SOUND.replace("outbox: o", "outbox: ~nosuchuser"), "2:1", "no such user"),
        (SOUND.replace("log_directories, paths: [b]", "collected, path: ~nosuchuser/x"), "4:", "no such user"),
        *((SOUND.replace(": w", f": {one}"), "1:1", "cannot be in") for one in ("a%41b", "50%25", "a%2fb")),
        (named('""'), "4:3", NAME),
        (named('" "'), "4:3", NAME),
        (named('"a\\0b"'), "4:3", NAME),
        (named('"\\ud800"'), "4:", NAME),
        (named("x" * 201), "4:3", NAME),
        (SOUND + "window: P999999999D\n", "5:1", "window: longer than 3,653 days"),
        (SOUND + "window: P32D\n", "5:1", "window: longer than P31D"),
        (SOUND + "grace: P999999999D\n", "5:1", "grace: longer than 3,653 days"),
        *(
            (SOUND.replace("]}\n", f"], what_ifs: {{a: {{grow: {{t: {value}}}}}}}}}\n"), "4:", "grow.t: ")
            for value in LONG[:4]
        ),
        *(
            (SOUND + f"candidates: [{{name: a, partitions: {value}}}]\n", "5:", "partitions: ")
            for value in ("100001", "x101", "20000000", "0")
        ),
        (SOUND + "keys: {partition_counts: [2147483648]}\n", "5:", "partition_counts"),
        (SOUND + "metrics: {topics: 1e400}\n", "5:", "topics"),
        *(
            (SOUND.replace("]}\n", f"], {given}}}\n"), "4:", where)
            for given, where in [
                ("time_zone: Europe", "no time zone"),
                (f"time_zone: {'a' * 300}", "no time zone"),
                ("disk_bytes: {1: 0}", "disk_bytes.1"),
                ("capacity: {1: 1e308}", "capacity.1"),
                ("gate: {chance_level: 1e-17}", "gate.chance_level"),
                ("what_ifs: {a: {add_brokers: {-5: ''}}}", "add_brokers"),
            ]
        ),
    ],
)
def test_what_nothing_can_take_is_refused_where_it_stands(tmp_path, text, where, words):
    file = tmp_path / "c.yaml"
    file.write_bytes(text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{file}:{where}")
    assert words in line
    assert line.isprintable()
    assert len(line) < 1000


@pytest.mark.parametrize(
    "text",
    [
        SOUND,
        SOUND + SERVER % 3600,
        SOUND + "window: P1D\n",
        SOUND.replace(": w", ": 100% a%zz"),
        named("'a;\"b'"),
        named("x" * 200),
    ],
)
def test_what_is_sound_is_taken(tmp_path, text):
    (tmp_path / "c.yaml").write_text(text)
    assert len(load_config(tmp_path / "c.yaml").clusters) == 1


@pytest.mark.parametrize(
    ("keys", "seconds"),
    [
        ("", 300),
        ("window: PT1H\n", 300),
        ("window: PT10M\n", 300),
        ("window: PT1M\n", 30),
        ("window: PT1M\ngrace: PT5M\n", 300),
        ("grace: PT1S\n", 1),
    ],
)
def test_the_grace_time_follows_the_window_unless_it_is_set(tmp_path, keys, seconds):
    (tmp_path / "c.yaml").write_text(SOUND + keys)
    assert load_config(tmp_path / "c.yaml").grace.total_seconds() == seconds


@pytest.mark.parametrize("price", [0.0, 0.02])
def test_a_price_may_be_part_of_a_unit_of_currency_or_nothing(price, tmp_path):
    (tmp_path / "c.yaml").write_text(SOUND.replace("]}\n", f"], zones: {{price_per_gb: {price}}}}}\n"))
    assert load_config(tmp_path / "c.yaml").clusters["demo"].zones.price_per_gb == price
