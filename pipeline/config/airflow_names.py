"""The configuration's section `airflow`: names in an Airflow that others use, too."""

from pydantic import Field

from pipeline.config.section import Section


class AirflowNames(Section):
    """Names in Airflow.

    Attributes:
        prefix: What the ids of DAGs and the names of assets and pool begin with.
    """

    prefix: str = Field("partition_health_", pattern=r"^[A-Za-z0-9_.-]{0,100}$")

    def name(self, of: str) -> str:
        """Returns the name of a DAG, an asset or the pool in Airflow.

        >>> AirflowNames().name("ingest")
        'partition_health_ingest'
        """
        return f"{self.prefix}{of}"
