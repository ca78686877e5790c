"""Why a broker carries more than its share: an exact split into three terms, and of the third into three again.

docs/MEASURES.md has the three terms. Over all brokers each sums to zero, unless a topic lost its last leader within the
window: its load then counts as skew. The skew of a partition, `x_p - T/P`, splits on by what its records are keyed by,
with x_p = H_p + L_p + R_p (heavy keys, light keys, records without a key or a name for it):

    x_p - T/P = (H_p - H/P)     heavy keys: a key holds more than 1/P of the topic, no hash can spread it + luck_p
    hash luck: what chance does to that many keys, at most its bound + the remainder   (R_p - R/P) + (L_p - L/P -
    luck_p): batching, a partitioner's defect, slow-broker feedback

Hash luck is `L_p - L/P` cut at `z (L/P) sqrt((P - 1) / N_eff)`, N_eff the effective number of light keys and z the
normal quantile that one of P partitions exceeds once in a thousand windows: what goes beyond is not luck.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pipeline.measures.window_loads import Floats, Places, WindowLoads

LUCK_LEVEL = 0.001  # chance that the luckiest of a topic's partitions goes beyond what is called hash luck


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Causes:
    """Terms of every broker's excess as parts of all bytes; the first three sum to it, the next three to the skew."""

    leaders: Floats  # from leading more partitions than its part of the capacity
    topic_mix: Floats  # from leading partitions of busier topics
    partition_skew: Floats  # from its partitions being hotter than their topics' mean
    heavy_keys: Floats  # of that, from keys that no hash can spread
    hash_luck: Floats  # of that, what chance does to that many keys
    remainder: Floats  # of that, the rest; all of it where the keys are not known
    light_keys: Floats  # bytes of light keys above an even spread, before luck is cut out of them
    luck_p_value: Floats  # chance that hashing the light keys gives a broker this much of them or more; 1 without any


def split_causes(loads: WindowLoads, broker: Places, expected_share: Floats) -> Causes | None:
    """The terms for every broker, the places of whom loads have; None where nothing is carried, or led at the end."""
    brokers, total = len(expected_share), float(loads.size_bytes.sum())
    led_count = int(loads.is_leader.sum())
    if total <= 0 or not led_count:
        return None
    fair_bytes = fair_loads(loads)

    def part_of_cluster(values: Floats) -> Floats:
        sums: Floats = np.bincount(broker, values, brokers) / total
        return sums

    carried, even = part_of_cluster(loads.size_bytes.astype(np.float64)), part_of_cluster(fair_bytes)
    led = np.bincount(broker, loads.is_leader, brokers) / led_count
    heavy, luck, _, light = map(part_of_cluster, split_excess(loads, fair_bytes))
    return Causes(
        leaders=led - expected_share,
        topic_mix=even - led,
        partition_skew=carried - even,
        heavy_keys=heavy,
        hash_luck=luck,
        remainder=carried - even - heavy - luck,
        light_keys=light,
        luck_p_value=_luck_p_values(loads, broker, light * total, brokers),
    )


def _luck_p_values(loads: WindowLoads, broker: Places, light_bytes: Floats, brokers: int) -> Floats:
    """One-sided chance of each broker's light-key excess if every light key fell on any partition of its topic."""
    topics = len(loads.topics)
    of_topic = np.bincount(loads.topic, np.nan_to_num(loads.light_ratio) * loads.size_bytes, topics)
    units = np.where(loads.light_unit_count > 0, loads.light_unit_count, np.inf)
    led = np.bincount(loads.topic * brokers + broker, loads.is_leader, topics * brokers).reshape(topics, brokers)
    part = led / np.maximum(led.sum(axis=1, keepdims=True), 1)
    deviation = np.sqrt(((of_topic**2 / units)[:, None] * part * (1 - part)).sum(axis=0))
    pairs = zip(light_bytes.tolist(), deviation.tolist(), strict=True)
    return np.array([0.5 * math.erfc(excess / sd / math.sqrt(2)) if sd > 0 else 1.0 for excess, sd in pairs])


def fair_loads(loads: WindowLoads) -> Floats:
    """Bytes of each load if its topic were even over its led partitions: 0 where another broker leads at the end."""
    topics = len(loads.topics)
    led = np.maximum(np.bincount(loads.topic, loads.is_leader, topics), 1)
    mean = np.bincount(loads.topic, loads.size_bytes, topics) / led
    fair: Floats = mean[loads.topic] * loads.is_leader
    return fair


def split_excess(loads: WindowLoads, fair_bytes: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Every load's bytes above `fair_loads`: heavy keys; light keys within chance; the rest; all light keys."""
    topics, is_known = len(loads.topics), ~np.isnan(loads.heavy_ratio)
    sizes = loads.size_bytes.astype(np.float64)
    led = loads.is_leader.astype(np.float64)
    led_of_topic = np.maximum(np.bincount(loads.topic, led, topics), 1)

    def above_mean(bytes_of_kind: Floats) -> Floats:
        mean = np.bincount(loads.topic, bytes_of_kind, topics) / led_of_topic
        above: Floats = bytes_of_kind - mean[loads.topic] * led
        return above

    heavy = above_mean(np.where(is_known, loads.heavy_ratio, 0.0) * sizes)
    light_bytes = np.where(is_known, loads.light_ratio, 0.0) * sizes
    light = above_mean(light_bytes)
    luck = light * _part_within_chance(loads, light, light_bytes, led_of_topic)
    return heavy, luck, sizes - fair_bytes - heavy - luck, light


def _part_within_chance(loads: WindowLoads, light: Floats, light_bytes: Floats, led_of_topic: Floats) -> Floats:
    """Part of each partition's light-key excess that chance explains, 0..1; one for all loads of a partition."""
    if not len(light):
        return light
    places = loads.topic_partition
    excess = np.abs(np.bincount(places, light))
    topic = np.zeros(len(excess), np.int64)
    topic[places] = loads.topic
    of_topic = np.bincount(loads.topic, light_bytes, len(loads.topics)).astype(np.float64)
    bound = luck_bound(of_topic, led_of_topic, loads.light_unit_count)[topic]
    part = np.ones(len(excess))
    beyond = excess > bound
    part[beyond] = bound[beyond] / excess[beyond]
    within: Floats = part[places]
    return within


def luck_bound(light_bytes: Floats, partition_count: Floats, light_unit_count: Floats) -> Floats:
    """Bytes above the mean up to which light keys may be luck, per topic, from its keys' effective number (or NaN)."""
    units = np.where(light_unit_count > 0, light_unit_count, np.inf)  # NaN is not above 0
    quantiles = {count: NormalDist().inv_cdf(1 - LUCK_LEVEL / count) for count in np.unique(partition_count).tolist()}
    z = np.array([quantiles[count] for count in partition_count.tolist()])
    bound: Floats = z * light_bytes / partition_count * np.sqrt((partition_count - 1) / units)
    return bound
