"""What rack-aware producers find among the brokers' racks, in sentences for people."""

from collections.abc import Mapping

ANY_RACK = "*"  # `client.rack` of a producer whose rack is not known: a replay draws one for each run
_NAMED_COUNT = 5  # racks or brokers that a sentence names


def describe_racks(client_rack: str, racks: Mapping[int, str]) -> str:
    """Says where a rack-aware producer's rack keeps it from nothing, or brokers from it; "" where all is as expected.

    `racks` are by broker id, "" for a broker without one.

    >>> describe_racks("d", {1: "a", 2: "b"})
    'no broker is in rack d (there are a, b): its producers choose as if they were not rack-aware'
    >>> describe_racks("a", {1: "a", 2: ""})
    'broker 2 has no rack: rack-aware producers pass it over while another broker in their rack leads a partition'
    """
    known = sorted({rack for rack in racks.values() if rack})
    without = sorted(broker_id for broker_id, rack in racks.items() if not rack)
    as_before = "choose as if they were not rack-aware"
    if not known:
        return f"no broker has a rack: rack-aware producers {as_before}"
    if client_rack not in known:
        return f"no broker is in rack {client_rack} (there are {_join(known)}): its producers {as_before}"
    if without:
        brokers, have, them = ("broker", "has", "it") if len(without) == 1 else ("brokers", "have", "them")
        passing = f"pass {them} over while another broker in their rack leads a partition"
        return f"{brokers} {_join(without)} {have} no rack: rack-aware producers {passing}"
    return f"all brokers are in rack {known[0]}: rack-aware producers {as_before}" if len(known) == 1 else ""


def _join(names: list[str] | list[int]) -> str:
    more = len(names) - _NAMED_COUNT
    return ", ".join([*map(str, names[:_NAMED_COUNT]), *([f"{more} more"] if more > 0 else [])])
