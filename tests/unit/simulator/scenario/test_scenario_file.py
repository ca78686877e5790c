"""Scenario files as a table: what is wrong with each, to the letter, and where."""

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import MS, SECOND, ClientFamily
from pipeline.simulator.distributions import Distribution, Steps
from pipeline.simulator.scenario.scenario import KEYLESS, Gaps, OnOff, PerfTest
from pipeline.simulator.scenario.scenario_file import AS_CONFIGURED, list_built_ins, load_scenario, parse_scenario

GOOD = """\
cluster:
  brokers:
    - {id: 7}
    - {id: 9, delay_ms: 20}
topics:
  - {name: foo, leaders: [7, 9, 7]}
producers:
  - name: app
    version: 3.9.1
    config:
      linger.ms: 5
    traffic:
      topic: foo
      arrivals: {kind: poisson, records_per_s: 100}
      records: 1000
      value_bytes: 512
"""


def parse(text):
    return parse_scenario(text, "s.yaml")


def changed(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def only(text):
    [variant] = parse(text).variants
    return variant


WRONG = [
    # keys that are not there
    (changed("linger.ms: 5", "linger.msec: 5"), "s.yaml:11:7: producers[0].config.linger.msec: unknown config key; nearest: linger.ms"),
    (changed("linger.ms: 5", "batch_size: 5"), "s.yaml:11:7: producers[0].config.batch_size: unknown config key; nearest: batch.size"),
    (
        changed("linger.ms: 5", "queue.buffering.max.ms: 5"),
        "s.yaml:11:7: producers[0].config.queue.buffering.max.ms: unknown config key; librdkafka has "
        "it, kafka-clients does not",
    ),
    (changed("delay_ms", "delay"), "s.yaml:4:15: cluster.brokers[1].delay: unknown key; nearest: delay_ms; expected id, rack, capacity, "
        "delay_ms, service, handlers, replica_wait_ms, quota_bytes_per_s, errors"),
    (changed("records: 1000", "record: 1000"), "s.yaml:15:7: producers[0].traffic.record: unknown key; nearest: records; expected topic, "
        "topics, arrivals, records, duration_s, start_s, value_bytes, keys, explicit, threads"),
    (changed("    version: 3.9.1\n", ""), "s.yaml:8:5: producers[0]: key version is missing: the client's, such as 3.9.1"),
    (changed("      value_bytes: 512\n", ""), "s.yaml:12:5: producers[0].traffic: key value_bytes is missing"),
    (
        changed("      records: 1000\n", ""),
        "s.yaml:12:5: producers[0].traffic: key records or duration_s is missing: traffic needs an end",
    ),
    (GOOD + "  - name: app\n", "s.yaml:17:5: producers[1]: key traffic is missing"),
    (GOOD + "topics: []\n", "s.yaml:17:1: not YAML: key topics twice; first in line 5"),
    # values that cannot be
    (changed("linger.ms: 5", "linger.ms: -1"), "s.yaml:11:7: producers[0].config.linger.ms: '-1'; expected a whole number, 0 or more"),
    (changed("linger.ms: 5", "linger.ms: 1.5"), "s.yaml:11:7: producers[0].config.linger.ms: '1.5'; expected a whole number, 0 or more"),
    (changed("linger.ms: 5", "acks: 2"), "s.yaml:11:7: producers[0].config.acks: '2'; expected all, -1, 0 or 1"),
    (
        changed("linger.ms: 5", "enable.idempotence: yes"),
        "s.yaml:11:7: producers[0].config.enable.idempotence: 'yes'; expected true or false",
    ),
    (
        changed("linger.ms: 5", "{enable.idempotence: true, acks: 1}").replace("config:\n      {", "config:\n      {"),
        "s.yaml:11:34: producers[0].config.acks: 1; expected all with idempotence, or enable.idempotence false",
    ),
    (
        changed("linger.ms: 5", "compression.type: lz4"),
        "s.yaml:11:7: producers[0].config.compression.type: lz4 needs compression_ratio: compressed "
        "bytes per uncompressed byte of these records",
    ),
    (
        changed("linger.ms: 5", "partitioner.class: com.acme.Mine"),
        "s.yaml:11:7: producers[0].config.partitioner.class: com.acme.Mine; expected "
        "DefaultPartitioner, UniformStickyPartitioner or RoundRobinPartitioner. For a class of your own "
        "give `strategy`, the nearest of those the simulator knows",
    ),
    (changed("20}", "-20}"), "s.yaml:4:15: cluster.brokers[1].delay_ms: found -20; expected 0 or more"),
    (changed("20}", "soon}"), "s.yaml:4:15: cluster.brokers[1].delay_ms: found soon; expected a number"),
    (
        changed("20}", "[{at_s: 5, ms: 1}]}"),
        "s.yaml:4:15: cluster.brokers[1].delay_ms: a schedule's times must rise from 0, with a value for each",
    ),
    (changed("20}", "{file: no.csv}}"), "s.yaml:4:26: cluster.brokers[1].delay_ms.file: no file no.csv"),
    (changed("poisson", "poison"), "s.yaml:14:18: producers[0].traffic.arrivals.kind: found poison; expected 'perf_test', "
        "'constant', 'poisson', 'on_off', 'recorded'"),
    (changed("records: 1000", "records: 0"), "s.yaml:15:7: producers[0].traffic.records: found 0; expected 1 or more"),
    (changed("512", "{0.1: 1, 1: 2}"), "s.yaml:16:7: producers[0].traffic.value_bytes: quantiles must rise from probability 0 to 1, "
        "and their values with them"),
    (changed("3.9.1", "3.9.x"), "s.yaml:9:5: producers[0].version: version '3.9.x'; expected numbers and dots, as in 3.9.1"),
    (changed("3.9.1", "0.10.2"), "s.yaml:9:5: producers[0].version: kafka-clients 0.10.2; expected 0.11 or later: older ones batch otherwise"),
    (changed("name: app", "name: app\n    client: kafkajs"), "s.yaml:9:5: producers[0].client: found kafkajs; expected 'kafka-clients', "
        "'librdkafka', 'franz-go', 'sarama', 'kafka-python' or 'aiokafka'"),
    (changed("name: app", "name: app\n    strategy: sarama-hash"), "s.yaml:9:5: producers[0].strategy: sarama-hash: the simulator does not follow it for "
        "kafka-clients; expected java-murmur2, java-builtin, "),
    # places that point nowhere
    (
        changed("[7, 9, 7]", "[7, 7, 7]"),
        "s.yaml:4:7: cluster.brokers[1]: broker 9 leads no partition; expected every broker to lead "
        "one: give it one in `leaders` of a topic, raise `partitions`, or leave the broker out",
    ),
    (changed("[7, 9, 7]", "[7, 9, 8]"), "s.yaml:6:33: topics[0].leaders[2]: no broker 8; expected 7 or 9"),
    (changed("{id: 9,", "{id: 7,"), "s.yaml:4:7: cluster.brokers[1]: id 7 twice, first at [0]"),
    (changed("topic: foo", "topic: bar"), "s.yaml:13:7: producers[0].traffic.topic: no topic bar; expected foo"),
    (
        changed("leaders: [7, 9, 7]", "partitions: 1"),
        "s.yaml:4:7: cluster.brokers[1]: broker 9 leads no partition; expected every broker to lead "
        "one: give it one in `leaders` of a topic, raise `partitions`, or leave the broker out",
    ),
    (GOOD + "variants:\n  - {name: a, brokers: [{id: 3}]}\n", "s.yaml:18:26: variants[0].brokers[0].id: no broker 3; expected 7 or 9"),
    (GOOD + "variants:\n  - {name: a, producers: [ap]}\n", "s.yaml:18:27: variants[0].producers[0]: no producer ap; expected app"),
    (GOOD + "variants:\n  - {name: a}\n  - {name: a}\n", "s.yaml:19:5: variants[1]: name a twice, first at [0]"),
    # parts that do not go together
    (changed("20}", "{every_s: 1}}"), "s.yaml:4:15: cluster.brokers[1].delay_ms: key ms is missing"),
    (changed("20}", "{file: s.csv, ms: 1}}"), "s.yaml:4:26: cluster.brokers[1].delay_ms.file: no file s.csv"),
    (changed("{id: 7}", "{id: 7, service: {request_ms: 1, idle: [{after_ms: 2, request_ms: 1}, {after_ms: 1, request_ms: 1}]}}"), "s.yaml:3:40: cluster.brokers[0].service.idle: after_ms must rise"),
    (changed("{id: 7}", "{id: 7, errors: [{from_s: 1, to_s: 3}, {from_s: 2, to_s: 4}]}"), "s.yaml:3:15: cluster.brokers[0].errors: error windows overlap or do not rise"),
    (changed("{id: 7}", "{id: 7, errors: [{from_s: 1, to_s: 1}]}"), "s.yaml:3:36: cluster.brokers[0].errors[0].to_s: found 1; expected a time after from_s"),
    (changed("{id: 7}", "{id: 7, replica_wait_ms: {exponential: 1, 1: 2}}"), "s.yaml:3:49: cluster.brokers[0].replica_wait_ms.1: unknown key; expected exponential"),
    (changed("{id: 7}", "{id: 7, replica_wait_ms: {0: 1, 1.5: 2}}"), "s.yaml:3:39: cluster.brokers[0].replica_wait_ms.1.5: found 1.5; expected 1 or less"),
    (changed("leaders: [7, 9, 7]", "leaders: [7, 9, 7], partitions: 2"), "s.yaml:6:17: topics[0].leaders: 3 leaders for 2 partitions"),
    (changed("leaders: [7, 9, 7]", "leaders: [null]"), "s.yaml:6:5: topics[0]: no partition has a leader; expected at least one"),
    (changed("leaders: [7, 9, 7]", "leaders: [7, 9, null], metadata_order: [2, 0]"), "s.yaml:6:40: topics[0].metadata_order: found [2, 0]; expected each partition with a leader once: [0, 1]"),
    (changed("leaders: [7, 9, 7]", "metadata_order: [0]"), "s.yaml:6:5: topics[0]: key partitions or leaders is missing"),
    (changed("topic: foo", "topic: foo\n      topics: {foo: 1}"), "s.yaml:14:7: producers[0].traffic.topics: topic and topics; expected one of them"),
    (changed("topic: foo", "topics: {foo: 1, bar: 2}"), "s.yaml:13:24: producers[0].traffic.topics.bar: no topic bar; expected foo"),
    (changed("topic: foo", "keys: {count: 1000, bytes: 2}"), "s.yaml:13:27: producers[0].traffic.keys.bytes: found 2; expected 3 or more for 1000 keys"),
    (changed("topic: foo", "explicit: {share: 1, partitions: [0, 3]}"), "s.yaml:13:44: producers[0].traffic.explicit.partitions[1]: found 3; expected a partition from 0 to 2"),
    (changed("topic: foo", "keys: {share: 0.6, count: 1, bytes: 1}\n      explicit: {share: 0.5, partitions: [0]}"), "s.yaml:14:7: producers[0].traffic.explicit: shares of keyed and explicit records add up to more than 1"),
    (changed("{kind: poisson, records_per_s: 100}", "{kind: poisson, on_s: 1}"), "s.yaml:14:7: producers[0].traffic.arrivals: key records_per_s is missing"),
    (changed("{kind: poisson, records_per_s: 100}", "{kind: recorded, file: no.csv}"), "s.yaml:14:34: producers[0].traffic.arrivals.file: no file no.csv"),
    (changed("linger.ms: 5", "acks: null"), "s.yaml:11:7: producers[0].config.acks: null; expected all, -1, 0 or 1"),
    (GOOD + "variants:\n  - {name: a, config: {linger.ms: x}}\n", "s.yaml:18:24: variants[0].config.linger.ms: 'x'; expected a whole number, 0 or more"),
    (GOOD + "variants:\n  - {name: a, client: librdkafka, version: 2.16.0, config: {acks: 0, enable.idempotence: true}}\n", "s.yaml:18:61: variants[0].config.acks: 0; expected all with idempotence"),
    (GOOD + "variants:\n  - {name: a, strategy: librdkafka-random}\n", "s.yaml:18:15: variants[0].strategy: librdkafka-random: the simulator does not follow it for kafka-clients; expected java-murmur2, java-builtin, "),
    (GOOD + "variants: []\n", "s.yaml:17:1: variants: found nothing; expected at least 1"),
    # no YAML
    ("", "s.yaml:1:1: found nothing; expected a mapping with cluster, topics, producers"),
    ("- 1", "s.yaml:1:1: found a list; expected a mapping with cluster, topics, producers"),
    ("a: [", "s.yaml:1:5: not YAML: expected the node content, but found '<stream end>'"),
    ("a:\n\tb", "s.yaml:2:1: not YAML: found character '\\t' that cannot start any token"),
    ("a: b: c", "s.yaml:1:5: not YAML: mapping values are not allowed here"),
]  # fmt: skip  # a table: a case a line


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[message[:60] for _, message in WRONG])
def test_what_is_wrong_is_told_with_its_place(text, message):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    first = str(caught.value).splitlines()[0]
    assert first.startswith(message) if message.endswith(", ") else first == message
    assert caught.value.exit_code == 2


def test_one_reading_tells_everything_that_is_wrong():
    text = changed("20}", "-1}").replace("linger.ms: 5", "linger: 5\n      acks: 3")
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        "s.yaml:4:15",
        "s.yaml:11:7",
        "s.yaml:12:7",
    ]


def test_a_file_without_variants_has_one():
    variant = only(GOOD)
    scenario = variant.scenario
    assert (variant.name, variant.clients, variant.notes) == (AS_CONFIGURED, ("kafka-clients 3.9.1, java-builtin",), ())
    assert [broker.broker_id for broker in scenario.brokers] == [7, 9]
    assert [broker.delay_ns.values for broker in scenario.brokers] == [(0,), (20 * MS,)]
    assert scenario.leaders == (0, 1, 0)
    [producer] = scenario.producers
    assert (producer.family, producer.settings.linger_ns, producer.settings.is_idempotent) == (
        ClientFamily.JAVA,
        5 * MS,
        True,
    )
    assert producer.traffic[0].arrivals == Gaps(Distribution.exponential(10 * MS))


@pytest.mark.parametrize(
    ("written", "steps"),
    [
        ("2.5", Steps.constant(2_500_000)),
        ("25e-1", Steps.constant(2_500_000)),
        ("[{at_s: 0, ms: 0}, {at_s: 1.5, ms: 20}]", Steps((0, 1_500 * MS), (0, 20 * MS))),
        ("{every_s: 2, ms: [1, 2]}", Steps((0, 2 * SECOND), (1 * MS, 2 * MS))),
    ],
)
def test_delays_over_time(written, steps):
    assert only(changed("20}", written + "}")).scenario.brokers[1].delay_ns == steps


def test_a_recorded_delay_lies_beside_the_file(tmp_path):
    (tmp_path / "delays.csv").write_text("at_s,ms\n0,1\n0.5,7\n")
    (tmp_path / "s.yaml").write_text(changed("20}", "{file: delays.csv}}"))
    scenario = load_scenario(str(tmp_path / "s.yaml"))
    assert scenario.name == "s"
    assert scenario.variants[0].scenario.brokers[1].delay_ns == Steps((0, SECOND // 2), (MS, 7 * MS))

    (tmp_path / "delays.csv").write_text("at_s,ms\n0,1\nx,7\n")
    with pytest.raises(ConfigError, match=r"delays\.csv:3: expected numbers, 0 or more, in columns at_s and ms"):
        load_scenario(str(tmp_path / "s.yaml"))


@pytest.mark.parametrize(
    ("written", "arrivals"),
    [
        ("{kind: constant, records_per_s: 1000}", Gaps(Distribution.constant(MS))),
        ("{kind: perf_test, records_per_s: 2048}", 2048),
        (
            "{kind: on_off, records_per_s: 1000, on_s: 1, off_s: {exponential: 2}}",
            OnOff(Distribution.constant(MS), Distribution.constant(SECOND), Distribution.exponential(2 * SECOND)),
        ),
    ],
)
def test_arrivals(written, arrivals):
    [traffic] = only(changed("{kind: poisson, records_per_s: 100}", written)).scenario.producers[0].traffic
    if isinstance(traffic.arrivals, PerfTest):
        assert traffic.arrivals.rate_per_s == arrivals
    else:
        assert traffic.arrivals == arrivals


def test_keys_become_the_partitions_their_hash_names():
    """Oracle: the strategy itself, key by key."""
    from pipeline.partitioners.registry import find_strategy  # noqa: PLC0415
    from pipeline.partitioners.strategy import choose_partition  # noqa: PLC0415

    text = changed("value_bytes: 512", "value_bytes: 512\n      keys: {share: 0.25, count: 4, bytes: 5}")
    [traffic] = only(text).scenario.producers[0].traffic
    keyless, *keyed = traffic.targets
    chosen = [choose_partition(find_strategy("java-builtin"), b"0000%d" % number, 3) for number in range(4)]

    assert (keyless.partition, keyless.key_bytes, keyless.weight) == (KEYLESS, -1, 750_000_000)
    assert {target.partition: target.weight for target in keyed} == {
        partition: chosen.count(partition) * 62_500_000 for partition in set(chosen)
    }
    assert {target.key_bytes for target in keyed} == {5}


def test_explicit_records_and_several_topics_share_by_weight():
    text = changed("{name: foo, leaders: [7, 9, 7]}", "{name: foo, leaders: [7, 9, 7]}\n  - {name: bar, partitions: 2}")
    text = text.replace("topic: foo", "topics: {foo: 3, bar: 1}\n      explicit: {share: 0.5, partitions: [1]}")
    [traffic] = only(text).scenario.producers[0].traffic
    assert [(t.topic, t.partition, t.is_explicit, t.weight) for t in traffic.targets] == [
        (0, KEYLESS, False, 375_000_000),
        (0, 1, True, 375_000_000),
        (1, KEYLESS, False, 125_000_000),
        (1, 1, True, 125_000_000),
    ]


@pytest.mark.parametrize(("share", "partitions"), [("1.0e-12", [KEYLESS]), ("1.1e-12", [KEYLESS, 1])])
def test_a_share_of_up_to_1e_12_is_a_rounding_error_and_no_traffic(share, partitions):
    text = changed("value_bytes: 512", f"value_bytes: 512\n      explicit: {{share: {share}, partitions: [1]}}")
    [traffic] = only(text).scenario.producers[0].traffic
    assert [target.partition for target in traffic.targets] == partitions


def test_recorded_arrivals(tmp_path):
    (tmp_path / "r.csv").write_text("at_ms,value_bytes,key,partition\n1.5,100,,\n0,512,abc,\n3,1,,2\n")
    text = changed("{kind: poisson, records_per_s: 100}", "{kind: recorded, file: r.csv}")
    text = text.replace("      records: 1000\n      value_bytes: 512\n", "")
    (tmp_path / "s.yaml").write_text(text)
    [variant] = load_scenario(str(tmp_path / "s.yaml")).variants
    arrivals = variant.scenario.producers[0].traffic[0].arrivals

    assert arrivals.due_ns.tolist() == [0, 1_500_000, 3_000_000]
    assert arrivals.body_bytes.tolist() == [3 + 4 + 514 + 1, 3 + 1 + 102 + 1, 3 + 1 + 2 + 1]
    assert arrivals.partition.tolist()[1:] == [KEYLESS, 2]
    assert arrivals.partition.tolist()[0] in (0, 1, 2)

    (tmp_path / "r.csv").write_text("at_ms,size\n1,2\n")
    with pytest.raises(ConfigError, match=r"r\.csv: column value_bytes is missing; found at_ms, size"):
        load_scenario(str(tmp_path / "s.yaml"))


def test_variants_change_what_they_name():
    text = GOOD + (
        "variants:\n"
        "  - {name: old, version: 3.2.3}\n"
        "  - {name: quick, config: {batch.size: 1}, brokers: [{id: 9, delay_ms: 0, capacity: 3}]}\n"
        "  - {name: c, client: librdkafka, version: 2.16.0, config: {linger.ms: 0.5}}\n"
    )
    old, quick, other = parse(text).variants
    assert [variant.scenario.producers[0].settings.placement for variant in (old, quick, other)] == [
        "STICKY",
        "BUILT_IN",
        "TIMED_STICKY",
    ]
    assert [variant.scenario.producers[0].settings.linger_ns for variant in (old, quick, other)] == [
        5 * MS,
        5 * MS,
        MS // 2,
    ]
    assert quick.scenario.producers[0].settings.batch_bytes == 1
    assert old.scenario.brokers[1].delay_ns.values == (20 * MS,)
    assert quick.scenario.brokers[1].delay_ns.values == (0,)
    assert quick.fair_shares == (0.25, 0.75)
    normal, fast = (broker.service.request_ns.points for broker in quick.scenario.brokers)
    assert [value for _, value in fast] == [round(value / 3) for _, value in normal]


def test_what_has_no_effect_is_told():
    config = (
        "{client.id: x, ssl.protocol: TLSv1.3, partitioner.adaptive.partitioning.enable: false,"
        " partitioner.class: RoundRobinPartitioner, transactional.id: t}"
    )
    assert only(changed("\n      linger.ms: 5", f" {config}")).notes == (
        "without influence on the simulation: client.id, ssl.protocol",
        "partitioner.adaptive.partitioning.enable: without effect, as partitioner.class is set",
        "transactional.id: a scenario has no commits",
    )
    old = changed("linger.ms: 5", "partitioner.ignore.keys: true").replace("3.9.1", "3.2.3")
    assert only(old).notes == (
        "partitioner.ignore.keys is not in kafka-clients 3.2.3 (since 3.3): that client ignores it",
    )
    assert only(GOOD.replace("3.9.1", "9.0")).notes == (
        "kafka-clients 9.0 is newer than 4.4: taken to have the same configurations",
    )


@pytest.mark.parametrize("name", list_built_ins())
def test_built_in_scenarios(name):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.summary
    assert all(variant.summary for variant in scenario.variants)


def test_the_variants_of_kip_794():
    released = ["uniform", "adaptive", "availability-5"]
    names = ["sticky", *released, *(f"{name}-draft" for name in released)]
    for name in ("kip-794-1mb", "kip-794-2mb"):
        assert [variant.name for variant in load_scenario(name).variants] == names
    others = {"kip-480-trogdor", "slow-broker-hour", "slow-broker-recovers", "round-robin-defect"}
    assert set(list_built_ins()) >= others


def test_no_such_scenario():
    with pytest.raises(ConfigError, match=r"no scenario and no file nope; expected a file or one of kip-480-trogdor, "):
        load_scenario("nope")
    with pytest.raises(ConfigError, match=r"kip-794-1mb has no variant x; expected sticky, uniform"):
        load_scenario("kip-794-1mb").select(["x"])
