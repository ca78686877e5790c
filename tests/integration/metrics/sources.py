"""What configurations of this folder name: sources, clusters, a secret."""

from tests.lab.measured_clients import BROKER_SCRAPE_S, SCRAPE_S

SECRET = "planted-Zx81-secret"
BCRYPT = "$2b$04$abcdefghijklmnopqrstuu1FQfqgT7bKsBOF7uEclfMUYmCUkYEeG"
VARIABLE = "TEST_PROMETHEUS_PASSWORD"
BY_FILES, BY_SERVER, WRONG = "by-files", "by-server", "wrong-password"


def server_sources(watched, variable=VARIABLE):
    """The server twice: a step that is not the scrapes' distance would ask for points nobody scraped."""
    access = {"basic_auth": {"username": "pipeline", "password_variable": variable}, "attempts": 2}
    server = {"kind": "prometheus", "url": watched.prometheus.url, "access": access}
    brokers = {f"127.0.0.1:{broker.exporter_port}": broker.node_id for broker in watched.cluster.brokers}
    return [
        {**server, "selector": 'job="producers"', "step": f"PT{SCRAPE_S}S"},
        {**server, "selector": 'job="brokers"', "step": f"PT{BROKER_SCRAPE_S}S", "brokers": brokers},
    ]


def file_sources(watched):
    return [
        {"kind": "producer_metrics", "path": str(watched.pages), "interval": "PT2S"},
        {"kind": "librdkafka_statistics", "paths": [str(watched.statistics)]},
    ]
