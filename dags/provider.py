"""What Airflow's lists of providers, links and types of connections say of this package (`apache_airflow_provider`)."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    return {
        "package-name": "partition-health",
        "name": "Partition health",
        "description": "Partition health for Kafka: DAGs that judge each broker's share of the traffic.",
        "integrations": [
            {"integration-name": "Apache Kafka", "external-doc-url": "https://kafka.apache.org/", "tags": ["apache"]}
        ],
        "connection-types": [
            {"connection-type": "partition_health_secret", "hook-class-name": "dags.secrets.SecretHook"}
        ],
        "extra-links": ["dags.report_link.ReportLink"],
    }
