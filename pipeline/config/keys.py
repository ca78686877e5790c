"""The configuration's section `keys`: what is stored about the keys of records."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pipeline.config.section import ConfigPath, Duration, Section

PSEUDONYMOUS, COUNTS_ONLY = "pseudonymous", "counts_only"
DEFAULT_SECRET = Path("partition-health.secret")


class KeySettings(Section):
    """Settings of what is stored about keys.

    Attributes:
        mode: `pseudonymous` stores counts by key id, and hashes by key id in a table of its own; `counts_only` stores
            sums over keys, no id and no hash; `off` reads no keys.
        secret: File outside the warehouse with the deployment secret, 64 hex digits; written at the first start, readable
            by its owner only. If it is lost, new ids cannot be matched with old ones.
        secret_variable: Environment variable that holds the secret instead.
        clear_topics: By cluster, topics whose keys may be stored in clear, with their hashes, for `retention`.
        max_distinct_keys: Keys held at once per segment and window; further ones are counted with a stated error. Each
            part of a segment that is cut among Spark's tasks holds as many: the error is then smaller.
        retention: How long hashes, answers and clear keys are kept after the date on which the key was seen.
        strategies: User-defined strategies, `module:name`, that place every distinct key.
        partition_counts: Partition counts they place it for, besides the topic's own.
    """

    mode: Literal["pseudonymous", "counts_only", "off"] = "pseudonymous"
    secret: ConfigPath = DEFAULT_SECRET
    secret_variable: str | None = None
    clear_topics: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    max_distinct_keys: int = Field(1_000_000, ge=2, le=1 << 28)
    retention: Duration = timedelta(days=30)
    strategies: tuple[Annotated[str, Field(pattern=r"^[\w.]+:\w+$")], ...] = ()
    partition_counts: tuple[Annotated[int, Field(ge=1)], ...] = ()
