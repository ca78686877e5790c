"""The client's side of a connection: what is in flight on it, and whether more may go (`NetworkClient`)."""

from dataclasses import dataclass, field

from tests.oracles.simulator.connection import Request


@dataclass
class Link:
    """A producer's end of its connection to a broker."""

    is_connected: bool = False  # requests may go
    is_connecting: bool = False  # it is under way
    in_flight: list[Request] = field(default_factory=list)  # requests without a handled response, oldest first
    arrived: list[Request] = field(default_factory=list)  # responses that the sender has not yet handled, oldest first
    throttled_until_ns: int = 0  # the client holds back until then

    def can_send(self, now_ns: int, max_in_flight_count: int) -> bool:
        """`client.ready`: connected, not throttled, and below the limit."""
        return self.is_connected and now_ns >= self.throttled_until_ns and len(self.in_flight) < max_in_flight_count
