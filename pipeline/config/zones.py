"""The configuration's section `zones` of a cluster: where producers and consumers are, and what traffic between zones costs."""

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from pipeline.config.section import Section


class Zones(Section):
    """Availability zones, by the names that brokers have in `broker.rack`.

    Attributes:
        brokers: Zone of a broker by id, where its `broker.rack` is not its zone or it has none.
        clients: Zone by pattern of `client.id` or address, such as `checkout-a-*` or `10.1.*`, the first that fits; for
            clients that do not say their `client.rack` themselves.
        weights: Part of the producers in each zone, in any unit, for those whose zone nothing says; by default each of the
            brokers' zones counts alike.
        price_per_gb: Price of 10^9 bytes from one zone to another, both directions together, in your currency.
    """

    brokers: dict[int, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    clients: dict[str, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    price_per_gb: float | None = Field(None, ge=0)

    def find(self, *names: str) -> str:
        """Zone of a client by its `client.id` and addresses, without a port too; "" where no pattern fits.

        >>> zones = Zones(clients={"app-a*": "a", "10.1.*": "b"})
        >>> [zones.find("app-a7"), zones.find("x", "10.1.0.3:9404"), zones.find("x")]
        ['a', 'b', '']
        """
        tried = {part for name in names if name for part in (name, name.rpartition(":")[0])}
        return next(
            (zone for pattern, zone in self.clients.items() if any(fnmatchcase(name, pattern) for name in tried)), ""
        )
