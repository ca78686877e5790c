"""Gold table of traffic between availability zones, as racks of brokers name them."""

from pipeline.tables.columns import bigint, boolean, double, string
from pipeline.tables.table import RUN_ID, TOPIC_COLUMNS, WINDOW, Table

ZONE_TRAFFIC = Table(
    name="gold.zone_traffic",
    grain="topic x kind x zones x window; no rows where no broker has a rack",
    key=("cluster", "window_start", "topic", "topic_id", "kind", "from_zone", "to_zone", "zone_source"),
    columns=(
        *WINDOW,
        *TOPIC_COLUMNS,
        string("kind", "`produce` to leaders, `replication` from leaders to followers, `fetch` by consumer groups whose members' zones are configured."),
        string("from_zone", "Zone the bytes leave; '' where it is not known."),
        string("to_zone", "Zone they go to; '' where it is not known."),
        string("zone_source", "How the client's zone is known: `client` (it says its `client.rack`), `configured` (`zones.clients`), `rack_aware` (its records keep to one rack), `assumed` (producers spread over zones by `zones.weights`, else evenly), `unknown`; of replication `brokers`."),
        bigint("size_bytes", "Bytes of batches as in the log; each replica, and each group, gets each byte once."),
        boolean("is_between_zones", "The two zones differ; NULL where one is not known.", nullable=True),
        double("cost", "Of bytes between zones, by `zones.price_per_gb` for 10^9 bytes; NULL without a price or a zone.", "currency"),
        double("cost_per_month", "The same for 730 hours like this window.", "currency"),
        RUN_ID,
    ),
)
