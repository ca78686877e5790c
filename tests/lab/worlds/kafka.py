"""A small Kafka in virtual time: brokers that die, a controller, partitions that move. It knows who led each record."""

import random
from collections import Counter, defaultdict
from itertools import groupby

from pipeline.model.log import Record
from pipeline.model.window import TimeWindow
from tests.batches import make_batch
from tests.lab.worlds import metadata_values as values
from tests.lab.worlds.logs import Batch, Copy, Log

NOBODY = -1


class Kafka:
    """The cluster. Its clock, `now_ms`, is set from outside; what it does is of that moment."""

    def __init__(self, chance: random.Random, brokers: int, disks: int, since_ms: int) -> None:
        self.chance, self.now_ms = chance, since_ms
        self.disks = {one: [chance.randbytes(16) for _ in range(disks)] for one in range(1, brokers + 2)}
        self.listed = {one: [*ids] for one, ids in self.disks.items()}  # without those that failed
        self.failed: set[tuple[int, int]] = set()  # broker and number of the disk
        self.alive: set[int] = set()
        self.up: dict[int, list[list[int]]] = defaultdict(list)  # since and until, UTC milliseconds
        self.topics: dict[str, bytes] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.logs: list[Log] = []
        self.gone: list[Log] = []  # of topics that were deleted
        self.told: list[tuple[int, bytes]] = []  # batches of the metadata log
        self.snapshots: list[tuple[int, int, bytes]] = []  # moment, end offset, file
        self.registered: set[int] = set()
        for one in range(1, brokers + 1):  # the last one comes later, or never
            self.come_back(one)

    def _tell(self, *told: bytes) -> None:
        for value in told:
            self.told.append((self.now_ms, values.write_values([value], len(self.told), self.now_ms)))

    def beat(self) -> None:
        """The controller's record of nothing."""
        self._tell(values.NO_OP)

    def _change(self, log: Log, leader: int | None = None) -> None:
        if leader is not None:
            log.leader, log.epoch = leader, log.epoch + 1
            if leader != NOBODY:
                log.copies[leader].epochs.append((log.epoch, log.copies[leader].end))
                self._follow(log)
        self._tell(values.change_partition(log, leads=leader is not None))

    def _follow(self, log: Log) -> None:
        """In-sync replicas have what the leader has."""
        led = log.copies[log.leader]
        for one in log.isr:
            copy = log.copies[one]
            if copy is not led:
                copy.batches, copy.start, copy.epochs = [*led.batches], led.start, [*led.epochs]
                copy.emptied_ms = led.emptied_ms

    def take_snapshot(self) -> None:
        """The controllers' state as a file from which metadata logs begin."""
        told = [values.register(one, self.listed[one], fenced=one not in self.alive) for one in sorted(self.registered)]
        told += [values.topic(name, raw) for name, raw in self.topics.items()]
        told += [values.partition(log) for log in self.logs]
        told += [values.config(topic, *one) for topic, of in self.configs.items() for one in of.items()]
        data = values.write_snapshot(told, self.told[-1][0], self.now_ms)
        self.snapshots.append((self.now_ms, len(self.told), data))

    def create(self, topic: str, partitions: int, copies: int, configs: dict[str, str]) -> None:
        """Makes a topic."""
        self.topics[topic], self.configs[topic] = self.chance.randbytes(16), configs
        self._tell(values.topic(topic, self.topics[topic]))
        self._tell(*(values.config(topic, *one) for one in configs.items()))
        self.add_partitions(topic, partitions, copies)

    def add_partitions(self, topic: str, count: int, copies: int) -> None:
        """Gives a topic more partitions."""
        first = sum(log.topic == topic for log in self.logs)
        for number in range(first, first + count):
            held = self.chance.sample(sorted(self.alive), min(copies, len(self.alive)))
            log = Log(topic, self.topics[topic], number, held, [*held], held[0])
            log.copies = {one: Copy(self._choose_disk(one), epochs=[(0, 0)]) for one in held}
            self.logs.append(log)
            self._tell(values.partition(log))

    def delete(self, topic: str) -> None:
        """Deletes a topic: what was sent to it may be read, or not."""
        self._tell(values.remove_topic(self.topics.pop(topic)))
        del self.configs[topic]
        mine = [log for log in self.logs if log.topic == topic]
        self.logs = [log for log in self.logs if log.topic != topic]
        self.gone += mine
        for log in mine:
            log.unsure |= {*range(len(log.sent))}
            log.copies = {one: copy for one, copy in log.copies.items() if one not in self.alive}

    def send(self, log: Log, size: int, off_ms: int = 0) -> None:
        """A producer sends a batch with one record, of a time that is off."""
        if log.leader == NOBODY:
            return
        led = log.copies[log.leader]
        if len(log.sent) % 12 == 0:
            log.segment += 1
        key, stamp_ms = self.chance.randrange(4), self.now_ms + off_ms
        record = Record(offset=led.end, timestamp_ms=stamp_ms, key=b"k%d" % key, value=bytes(size))
        data = make_batch([record], leader_epoch=log.epoch)
        batch = Batch(led.end, data, self.now_ms, stamp_ms, log.leader, log.epoch, log.segment, key)
        log.sent.append(batch)
        for one in log.isr:
            log.copies[one].batches.append(batch)
            log.copies[one].emptied_ms = 0

    def die(self, broker: int) -> None:
        """A broker stops; whoever is in sync takes over."""
        if broker not in self.alive or len(self.alive) == 1:
            return
        self.alive.discard(broker)
        self.up[broker][-1][1] = self.now_ms
        self._tell(values.fence(broker))
        for log in self.logs:
            if broker in log.isr and len(log.isr) > 1:
                log.isr.remove(broker)
                self._change(log, log.isr[0] if log.leader == broker else None)
            elif log.leader == broker:
                self._elect_or_wait(log)

    def _elect_or_wait(self, log: Log) -> None:
        others = [one for one in log.replicas if one in self.alive]
        if others and self.configs[log.topic].get("unclean.leader.election.enable") == "true":
            self._lose(log, others[0])
        else:
            self._change(log, NOBODY)

    def _lose(self, log: Log, leader: int) -> None:
        """An unclean election: what only the others have is lost."""
        kept = {id(one) for one in log.copies[leader].batches}
        start = log.copies[leader].start
        log.unsure |= {n for n, one in enumerate(log.sent) if id(one) not in kept and one.offset >= start}
        log.isr = [leader]
        self._change(log, leader)

    def come_back(self, broker: int) -> None:
        """A broker starts, catches up, and is in sync again."""
        if broker in self.alive:
            return
        self._tell(values.register(broker, self.listed[broker], fenced=True), values.unfence(broker))
        self.alive.add(broker)
        self.registered.add(broker)
        self.up[broker].append([self.now_ms, 2**62])
        for log in (*self.gone, *self.logs):
            if log in self.gone or broker not in log.replicas:
                log.copies.pop(broker, None)
                continue
            if log.leader == NOBODY and broker in log.isr:
                self._change(log, broker)
            elif log.leader == NOBODY and self.configs[log.topic].get("unclean.leader.election.enable") == "true":
                self._lose(log, broker)
            if log.leader != NOBODY:
                log.isr += [one for one in log.replicas if one in self.alive and one not in log.isr]
                self._follow(log)
                self._change(log)

    def _choose_disk(self, broker: int) -> int:
        return self.chance.choice([n for n in range(len(self.disks[broker])) if (broker, n) not in self.failed])

    def fail_disk(self, broker: int) -> None:
        """A disk of a broker that has others is gone for good: what it led there others lead, or nobody."""
        if broker not in self.alive or len(self.listed[broker]) < 2:
            return
        self.failed.add((broker, 1))
        self.listed[broker] = self.disks[broker][:1]
        self._tell(values.change_disks(broker, self.listed[broker]))
        for log in self.logs:
            if (copy := log.copies.get(broker)) is None or copy.disk != 1:
                continue
            if log.isr == [broker]:
                self._change(log, NOBODY)
                log.replicas, log.isr = [-2], [-2]  # nobody brings it back
            elif broker in log.isr:
                log.isr.remove(broker)
                log.replicas.remove(broker)
                self._change(log, log.isr[0] if log.leader == broker else None)
            del log.copies[broker]

    def move_disk(self, log: Log) -> None:
        """A replica is moved to another disk of its broker."""
        if log.copies:
            broker = self.chance.choice(sorted(log.copies))
            if broker in self.alive:
                log.copies[broker].disk = self._choose_disk(broker)

    def unregister(self, broker: int) -> None:
        """Somebody takes a dead broker out of the cluster."""
        if broker in self.registered - self.alive:
            self.registered.discard(broker)
            self._tell(values.unregister(broker))

    def move(self, log: Log) -> None:
        """Another replica leads."""
        if log.leader != NOBODY and (others := [one for one in log.isr if one != log.leader]):
            self._change(log, self.chance.choice(others))

    def prefer(self, log: Log) -> None:
        """The preferred replica leads, if it is in sync."""
        if log.leader not in {NOBODY, log.replicas[0]} and log.replicas[0] in log.isr:
            self._change(log, log.replicas[0])

    def reassign(self, log: Log) -> None:
        """Other brokers hold it; the old ones delete theirs."""
        if log.leader == NOBODY or log.adding:
            return
        held = self.chance.sample(sorted(self.alive), min(len(self.alive), len(log.replicas)))
        log.adding = [one for one in held if one not in log.replicas]
        for one in held:
            log.copies.setdefault(one, Copy(self._choose_disk(one)))
        log.replicas = [*held, *(one for one in log.replicas if one not in held)]
        self._change(log)
        log.isr = list(dict.fromkeys([*held, *log.isr]))
        self._follow(log)
        log.replicas, log.isr, log.adding = held, [*held], []
        self._change(log, log.leader if log.leader in held else held[0])
        log.copies = {one: copy for one, copy in log.copies.items() if one in held or one not in self.alive}

    def purge(self, log: Log) -> None:
        """DeleteRecords up to some offset."""
        if log.leader != NOBODY and log.copies[log.leader].batches:
            led = log.copies[log.leader]
            self._cut(log, self.chance.randint(led.start, led.end))

    def retain(self) -> None:
        """Deletes segments whose largest time is older than their topic's retention, or that are beyond its size."""
        for log in self.logs:
            configs = self.configs[log.topic]
            kept_ms, kept_bytes = (int(configs.get(f"retention.{unit}", 2**62)) for unit in ("ms", "bytes"))
            if log.leader == NOBODY or configs.get("cleanup.policy") == "compact":
                continue
            led = log.copies[log.leader]
            size = sum(len(one.data) for one in led.batches)
            for _, segment in groupby([*led.batches], key=lambda one: one.segment):
                batches = [*segment]
                size -= sum(len(one.data) for one in batches)
                if max(one.stamp_ms for one in batches) >= self.now_ms - kept_ms and size < kept_bytes:
                    break
                self._cut(log, batches[-1].offset + 1)

    def tier(self, log: Log) -> None:
        """All but the active segment are on a remote tier alone: the log begins where it began, its files later."""
        if log.leader != NOBODY:
            last = max((one.segment for one in log.copies[log.leader].batches), default=0)
            for one in log.isr:
                log.copies[one].batches = [batch for batch in log.copies[one].batches if batch.segment == last]

    def _cut(self, log: Log, start: int) -> None:
        for one in log.isr:
            copy = log.copies[one]
            end, copy.start = copy.end, max(copy.start, start)
            kept = {batch.segment for batch in copy.batches if batch.offset >= copy.start}
            copy.batches = [batch for batch in copy.batches if batch.segment in kept]
            if not copy.batches:
                copy.start, copy.emptied_ms = end, self.now_ms
            begun = [epoch for epoch, at in copy.epochs if at <= copy.start]
            copy.epochs = [(begun[-1], copy.start), *(noted for noted in copy.epochs if noted[1] > copy.start)]
        log.segment += 1

    def compact(self, log: Log) -> None:
        """The cleaner takes what a later record of the key replaces, but for the active segment."""
        if log.leader == NOBODY or self.configs[log.topic].get("cleanup.policy") != "compact":
            return
        led = log.copies[log.leader]
        last = {batch.key: batch.offset for batch in led.batches}
        taken = {n.offset for n in led.batches if last[n.key] != n.offset and n.segment != led.batches[-1].segment}
        log.unsure |= {n for n, one in enumerate(log.sent) if one.offset in taken}
        for one in log.isr:
            log.copies[one].batches = [batch for batch in log.copies[one].batches if batch.offset not in taken]

    def count(self, window: TimeWindow, left_out: str) -> tuple[Counter[int], Counter[int]]:
        """Bytes that each broker led of a window by the records' times, but of one topic: at least, and at most."""
        least, most = Counter(), Counter()
        for log in (log for log in (*self.logs, *self.gone) if log.topic != left_out):
            for number, batch in enumerate(log.sent):
                if not window.start_ms <= batch.stamp_ms < window.end_ms:
                    continue
                size = len(batch.data)
                is_off = not window.start_ms <= batch.sent_ms < window.end_ms
                if not is_off and number not in log.unsure:
                    least[batch.leader] += size
                for one in self.disks if is_off else {batch.leader}:  # whoever leads by then may count
                    most[one] += size
        return least, most

    def stood(self, broker: int, window: TimeWindow) -> float:
        """The part of a window in which a broker was up."""
        spans = (min(until, window.end_ms) - max(since, window.start_ms) for since, until in self.up[broker])
        return sum(max(0, one) for one in spans) / window.duration_ms
