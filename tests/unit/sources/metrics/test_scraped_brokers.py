"""One Prometheus server of several clusters, and gateways: whose series are whose. Oracle: the servers below, written down.

Cluster `a` and cluster `b` have brokers 1 and 2 each, and a producer. All answers are a real server's over loopback.
"""

import json
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from pipeline.config.pipeline_config import Cluster
from pipeline.sources.metrics.prometheus import probe_prometheus
from tests.unit.sources.http_servers import Answer, serving
from tests.unit.sources.metrics.test_metric_readings import AT_S, BYTES_IN, JSON, SPAN, read, rows, server

LEADERS = "kafka_server_replicamanager_leadercount"
START = "kafka_server_app_info_starttimems"
LATENCY = "kafka_producer_producer_node_metrics_request_latency_avg"
ASKED = {BYTES_IN: "brokertopicmetrics", LEADERS: "replicamanager", START: "app_info)(_start", LATENCY: "node_metrics|"}
INSTANTS = range(-30, 120, 30)


def series(name, instance, first=0, rise=100, instants=INSTANTS, **labels):
    """A series whose value is `first` at the span's start, and rises so much a second; no instance where it is empty."""
    metric = {"__name__": name, **({"instance": instance} if instance else {}), **labels}
    return {"metric": metric, "values": [[AT_S + at_s, str(first + rise * at_s)] for at_s in instants]}


def answering(*held):
    """A server that has these series: it answers those whose metric is asked for, or counts them."""

    def answer(path):
        asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        query = asked["query"]
        found = [one for one in held if ASKED[one["metric"]["__name__"]] in query.replace("kafka_server_app", "app")]
        if query.startswith("count"):
            found = [{"metric": {}, "value": [SPAN.end_ms / 1000 - 30, str(len(found))]}] if found else []
        kind = "matrix" if "query_range" in path else "vector"
        if kind == "matrix":
            start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
            wanted = [start + step * n for n in range(round((end - start) / step) + 1)]
            found = [{**one, "values": [point for point in one["values"] if point[0] in wanted]} for one in found]
            found = [one for one in found if one["values"]]
        return Answer(json.dumps({"data": {"resultType": kind, "result": found}}), headers=JSON)

    names = Answer('{"data":[]}', headers=JSON)
    return {"/api/v1/query_range": answer, "/api/v1/query": answer, "/api/v1/label/__name__/values": names}


def told(*held, **more):
    """What is read of such a server: values by instance, metric and broker id; and the reasons that something is refused."""
    with serving(answering(*held)) as site:
        reading = read(server(site.url, **more))
    wrong = [one for one in reading.problems["prometheus"] if one.severity == "refused"]
    assert all(one.path == site.url for one in wrong)
    found = {(row["instance"], row["name"], dict(row["labels"]).get("broker_id")) for row in rows(reading)}
    return found, [one.reason for one in wrong]


def cluster_of(name, first, *, ids=True, **labels):
    """Series of both brokers and the producer of a cluster; with app-info, or a label, or nothing that tells the id."""
    for number in (1, 2):
        instance = f"{name}{number}:7071"
        id_label = {"broker_id": str(number)} if ids == "label" else {}
        yield series(BYTES_IN, instance, first + number, **labels, **id_label)
        yield series(LEADERS, instance, 3, rise=0, **labels, **id_label)
        if ids is True:
            yield series(START, instance, first, rise=0, id=str(number), **labels)
    yield series(LATENCY, f"{name}-client:9404", 5, rise=0, client_id="orders", node_id="node-1", **labels)


A, B = 1_000_000, 9_000_000
NODE = {"client_id": "c", "node_id": "node-1"}


LABELS = {"cluster": True, "kafka_cluster": True, "env": "label", "namespace": True, "job": "label", "team": True}


@pytest.mark.parametrize(("label", "ids"), LABELS.items())
def test_of_two_clusters_nothing_is_taken_and_the_label_that_tells_them_apart_is_named(label, ids):
    held = (*cluster_of("a", A, ids=ids, **{label: "prod"}), *cluster_of("b", B, ids=ids, **{label: "test"}))
    found, (reason,) = told(*held)
    assert found == set()
    assert f"by the label {label} prod, test; none of the samples is taken" in reason
    assert f"""selector: '{label}="prod"'""" in reason


def test_brokers_that_two_clusters_have_are_named():
    _, (reason,) = told(*cluster_of("a", A, cluster="a"), *cluster_of("b", B, cluster="b"))
    assert reason.startswith("several Kafka clusters: brokers 1, 2 are there twice, by the label cluster a, b;")


def test_two_clusters_that_nothing_but_instances_tells_apart_are_two():
    found, (reason,) = told(*cluster_of("a", A), *cluster_of("b", B))
    assert found == set()
    assert "by the label instance a1:7071, a2:7071, b1:7071, b2:7071" in reason
    assert """selector: 'instance=~"a1:7071"'""" in reason


def test_instances_of_one_name_in_two_namespaces_are_two():
    """Where `instance` was made the pod's name."""
    held = [series(BYTES_IN, "kafka-0", first, namespace=of, broker_id="0") for first, of in ((A, "x"), (B, "y"))]
    found, (reason,) = told(*held)
    assert found == set()
    assert "label namespace x, y" in reason


@pytest.mark.parametrize(("name", "label"), [(BYTES_IN, "kafka_cluster"), (LATENCY, "kafka_cluster_id")])
def test_a_label_that_names_kafka_clusters_suffices(name, label):
    """Broker ids may differ, or nobody scrapes brokers."""
    of = NODE if name == LATENCY else {}
    found, (reason,) = told(series(name, "p:1", **{label: "a"}, **of), series(name, "q:1", **{label: "b"}, **of))
    assert found == set()
    assert f"by the label {label} a, b" in reason


def test_strimzi_names_connect_s_cluster_on_clients_and_kafka_s_on_brokers():
    clients = [series(LATENCY, f"{of}:1", strimzi_io_cluster=of, **NODE) for of in ("connect", "bridge")]
    assert told(*clients)[1] == []
    assert "strimzi_io_cluster" in told(*(series(BYTES_IN, of, strimzi_io_cluster=of) for of in ("a", "b")))[1][0]


def one_cluster(*, at=0, **labels):
    return [*cluster_of("a", A, **labels), *([series(BYTES_IN, "b3:7071", at, broker_id="3")] if at else [])]


LATER = 100 * 25  # what a counter rises by within a scrape's interval
NORMAL = {
    "an instance for each broker": one_cluster(),
    "clusters of Kubernetes, where each broker is in another": [
        *(series(BYTES_IN, f"{n}:1", n * A, broker_id=str(n), cluster=f"zone-{n}") for n in (1, 2)),
        *(series(LATENCY, f"{n}-client:1", 5, cluster=f"zone-{n}", **NODE) for n in (1, 2)),
    ],
    "a namespace for each team": [
        *one_cluster(namespace="kafka"),
        *(series(LATENCY, f"{n}:1", namespace=n, **NODE) for n in ("x", "y")),
    ],
    "replicas of Prometheus": [*one_cluster(replica="0"), *one_cluster(replica="1")],
    "replicas a scrape apart": [
        *one_cluster(prometheus_cluster="0"),
        *cluster_of("a", A + LATER, prometheus_cluster="1"),
    ],
    "a broker that two jobs scrape at two addresses": [
        *one_cluster(job="static"),
        series(BYTES_IN, "10.0.0.1:7071", A + 1 + LATER, broker_id="1", job="pods"),
        series(LEADERS, "10.0.0.1:7071", 3, rise=0, broker_id="1", job="pods"),
    ],
    "a broker that is idle, scraped twice": [series(BYTES_IN, n, 5, rise=0, broker_id="1") for n in ("a:1", "b:1")],
    "a broker that moved while its old address was remembered": [
        series(BYTES_IN, "10.0.0.1:1", A, broker_id="1", instants=range(-30, 30, 30)),
        series(BYTES_IN, "10.0.0.2:1", 3 * A, broker_id="1", instants=range(60, 120, 30)),
    ],
    "an old address that a gateway remembers for the smaller part": [
        series(BYTES_IN, "10.0.0.1:1", A, rise=0, broker_id="1", instants=range(-30, 60, 30)),
        series(BYTES_IN, "10.0.0.2:1", 0, broker_id="1", instants=(60, 90)),
    ],
    "a broker that restarted under another name, whose old series a gateway holds": [
        series(BYTES_IN, "uuid-a", 9 * A, rise=0, broker_id="1"),
        series(BYTES_IN, "uuid-b", 0, broker_id="1"),
    ],
    "topics of one broker": [series(BYTES_IN, "a:1", n * A, broker_id="1", topic=f"t{n}") for n in (1, 2)],
    "a renamed cluster": [
        series(BYTES_IN, "a:1", A, kafka_cluster="old", instants=range(-30, 30, 30)),
        series(BYTES_IN, "a:1", A, kafka_cluster="new", instants=range(30, 120, 30)),
    ],
    "an address that is another broker's after a restart": [
        series(START, "a:1", A, rise=0, id="1", instants=(30,)),
        series(START, "a:1", A, rise=0, id="2", instants=(90,)),
        series(BYTES_IN, "a:1", A),
    ],
}


@pytest.mark.parametrize("held", NORMAL.values(), ids=NORMAL.keys())
def test_what_is_normal_in_one_cluster_is_taken(held):
    found, wrong = told(*held)
    assert wrong == []
    assert {name for _, name, _ in found} == {one["metric"]["__name__"] for one in held}


def test_a_selector_that_names_one_cluster_settles_it():
    assert told(*cluster_of("a", A, cluster="a"), selector='cluster="a"')[1] == []


def test_brokers_of_one_gateway_are_told_apart_by_their_ids():
    """Of six brokers the highest id had the worst of all values."""
    held = [series(BYTES_IN, "gateway:9091", A * n, broker_id=str(n)) for n in (1, 2)]
    clients = [series(LATENCY, "gateway:9091", broker_id=str(n), **NODE | {"client_id": f"c{n}"}) for n in (1, 2)]
    started = [series(START, "gateway:9091", A, rise=0, id=str(n)) for n in (1, 2)]
    found, wrong = told(*held, *clients, *started)
    assert wrong == []
    assert {one for one in found if one[1] == BYTES_IN} == {(f"gateway:9091 broker {n}", BYTES_IN, n) for n in "12"}
    assert {one[:2] for one in found if one[1] == START} == {(f"gateway:9091 broker {n}", START) for n in "12"}
    assert {instance for instance, name, _ in found if name == LATENCY} == {"gateway:9091"}


def test_an_instance_that_a_gateway_has_it_from_is_the_instance():
    """Prometheus keeps it as `exported_instance`."""
    held = [series(BYTES_IN, "gateway:9091", A * n, exported_instance=f"b{n}") for n in (1, 2)]
    found, wrong = told(*held, brokers={"b1": 1})
    assert wrong == []
    assert found == {("b1 by gateway:9091", BYTES_IN, "1"), ("b2 by gateway:9091", BYTES_IN, None)}


@pytest.mark.parametrize(
    ("instance", "label", "values", "key"),
    [
        ("gateway:4318", "service_instance_id", ("u-1", "u-2"), "instance_label"),
        ("", "host_name", ("u-1", "u-2"), "instance_label"),
        ("gateway:4318", "pod", ("kafka-0", "kafka-1"), "instance_label"),
        ("gateway:4318", "broker", ("b1", "b2"), "instance_label"),
        ("gateway:4318", "node_id", ("1", "2"), "broker_label"),
        ("", "exported_job", ("kafka-1", "kafka-2"), "instance_label"),
    ],
)
def test_a_gateway_s_brokers_are_not_taken_as_one_and_the_label_to_configure_is_named(instance, label, values, key):
    held = [series(BYTES_IN, instance, A * n, **{label: value}) for n, value in enumerate(values, start=1)]
    client = series(LATENCY, instance, **NODE)
    found, (reason,) = told(*held, client)
    assert found == {(instance, LATENCY, None)}
    assert f"set `{key}: {label}`" in reason
    assert ", ".join(values) in reason
    if label != "exported_job":
        found, wrong = told(*held, client, **{key: label})
        assert (len({one for one in found if one[1] == BYTES_IN}), wrong) == (2, [])


def test_a_gateway_s_brokers_that_only_app_info_tells_apart_are_not_taken():
    started = [series(START, "gateway:9091", A, rise=0, id=str(number)) for number in (1, 2, 3)]
    found, (reason,) = told(*started, series(BYTES_IN, "gateway:9091", A), series(BYTES_IN, "other:1", A))
    assert {instance for instance, *_ in found} == {"other:1"}
    assert "gateway:9091, app-info's id 1, 2, 3, and no label tells whose they are" in reason


def test_names_of_a_server_are_shown_and_cut():
    names = {A: "\x1b[31m" + "x" * 500, B: "\x1b[31m" + "y" * 500}
    (reason,) = told(*(series(BYTES_IN, "i", first, broker_id="1", env=name) for first, name in names.items()))[1]
    assert reason.isprintable()
    assert len(reason) < 500


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ((*cluster_of("a", A, cluster="a"), *cluster_of("b", B, cluster="b")), "brokers 1, 2 are there twice"),
        ([series(BYTES_IN, "gateway:1", A * n, host_name=f"b{n}") for n in (1, 2)], "host_name differs b1, b2"),
        (one_cluster(), ""),
    ],
)
def test_doctor_says_it_before_the_first_run(held, words):
    with serving(answering(*held)) as site:
        (source,) = Cluster(sources=[server(site.url)]).sources
        found = probe_prometheus(source, pause=lambda _: None)
    wrong = [one for one in found if not one.is_ok]
    assert len(wrong) == bool(words)
    for one in wrong:
        assert (words in one.found, one.name, "this source" in one.advice) == (True, "brokers", True)


def test_schema_of_rows_stays():
    with serving(answering(*one_cluster())) as site:
        batches = read(server(site.url)).batches
    assert {batch.schema for batch in batches} == {pa.Table.from_batches(batches).schema}


def test_a_client_that_pushes_metrics_under_names_of_a_broker_tells_of_none():
    """KIP-714: names and attributes are the client's, `client_instance_id` is the reporter's."""
    held = [series(BYTES_IN, f"broker-{one}:9404", 1_000 * one, broker_id=str(one)) for one in (1, 2)]
    pushed = {"client_instance_id": "Fk9", "broker_id": "1"}
    forged = [series(name, "collector:8889", 10**9, **pushed) for name in (BYTES_IN, LEADERS)]
    assert told(*held, *forged) == told(*held)
    assert told(*held)[1] == []
