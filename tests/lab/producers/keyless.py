"""Sends keyless records in bursts through one of Python's clients, as `tests/integration/clients/go/send` does for Go's.

Its argument is a JSON object with client, bootstrap, topic, count, rate, burst, bytes, step and linger_ms (-1: the client's
default). Prints a JSON list: when each record was handed over, in nanoseconds from the first.
"""

import asyncio
import json
import sys
import time


def make_bursts(setting):
    """Yields for each burst when it is due, in nanoseconds, and its values."""
    count, burst, rate = setting["count"], setting["burst"], setting["rate"]
    start_ns = time.perf_counter_ns()
    for first in range(0, count, burst):
        numbers = range(first, min(first + burst, count))
        values = [bytes(setting["bytes"] + number * 7 % 11 * setting["step"]) for number in numbers]
        yield start_ns + first * 10**9 // rate, values


def list_lingers(setting, name):
    """The client's linger, unless it keeps its default."""
    return {} if setting["linger_ms"] < 0 else {name: setting["linger_ms"]}


def send_librdkafka(setting):
    """Sends by confluent-kafka."""
    from confluent_kafka import Producer  # noqa: PLC0415 - each client is installed apart

    random_only = {"sticky.partitioning.linger.ms": 0} if setting["client"].endswith("random") else {}
    lingers = list_lingers(setting, "linger.ms")
    producer, at_ns = Producer({"bootstrap.servers": setting["bootstrap"], **lingers, **random_only}), []
    producer.list_topics(setting["topic"])
    for due_ns, values in make_bursts(setting):
        while (left_ns := due_ns - time.perf_counter_ns()) > 0:
            producer.poll(max(left_ns / 1e9, 1e-3))  # below 1 ms it does not wait at all
        for value in values:
            at_ns.append(time.perf_counter_ns())
            producer.produce(setting["topic"], value)
    assert producer.flush(60) == 0
    return at_ns


def send_kafka_python(setting):
    """Sends by kafka-python."""
    from kafka import KafkaProducer  # noqa: PLC0415 - each client is installed apart

    producer = KafkaProducer(bootstrap_servers=setting["bootstrap"], **list_lingers(setting, "linger_ms"))
    producer.partitions_for(setting["topic"])
    at_ns, futures = [], []
    for due_ns, values in make_bursts(setting):
        time.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
        for value in values:
            at_ns.append(time.perf_counter_ns())
            futures.append(producer.send(setting["topic"], value))
    producer.close(60)
    assert all(future.succeeded() for future in futures)
    return at_ns


def send_aiokafka(setting):
    """Sends by aiokafka."""
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - each client is installed apart

    async def send():
        producer = AIOKafkaProducer(bootstrap_servers=setting["bootstrap"], **list_lingers(setting, "linger_ms"))
        await producer.start()
        await producer.partitions_for(setting["topic"])
        at_ns, futures = [], []
        for due_ns, values in make_bursts(setting):
            await asyncio.sleep(max(0, due_ns - time.perf_counter_ns()) / 1e9)
            for value in values:
                at_ns.append(time.perf_counter_ns())
                futures.append(await producer.send(setting["topic"], value))
        await asyncio.gather(*futures)
        await producer.stop()
        return at_ns

    return asyncio.run(send())


def main():
    """Sends, and prints when."""
    setting = json.loads(sys.argv[1])
    senders = {"librdkafka": send_librdkafka, "kafka-python": send_kafka_python, "aiokafka": send_aiokafka}
    at_ns = senders[setting["client"].partition(",")[0]](setting)
    print(json.dumps([each - at_ns[0] for each in at_ns]))


if __name__ == "__main__":
    main()
