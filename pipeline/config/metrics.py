"""The section `metrics`: export to Prometheus after each run."""

from typing import Annotated

from pydantic import AfterValidator, Field

from pipeline.config.http_access import HttpLogin, check_url
from pipeline.config.section import ConfigPath, Section


class Pushgateway(HttpLogin):
    """A Pushgateway of Prometheus.

    Attributes:
        url: Its address, such as `http://pushgateway:9091`.
    """

    url: Annotated[str, AfterValidator(check_url)]


class Metrics(Section):
    """Targets of the newest judged window's metrics, and limits on their series.

    Attributes:
        textfile_folder: Folder of node_exporter's textfile collector; a file per cluster is replaced in it as a whole.
        pushgateway: Pushgateway that gets the same, a group per cluster.
        topics: How many topics have series, those with most bytes.
        partitions: How many partitions have series, those farthest above their topic's mean.
    """

    textfile_folder: ConfigPath | None = None
    pushgateway: Pushgateway | None = None
    topics: int = Field(500, ge=0)
    partitions: int = Field(50, ge=0)
