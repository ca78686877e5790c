"""Settings of the lab's controller and brokers, in the words of Kafka's `server.properties`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.lab.cluster import Broker, Cluster

CONTROLLER_ID = 100


def controller_settings(cluster: Cluster, port: int) -> dict[str, str]:
    """Of the one controller."""
    return {
        "process.roles": "controller",
        "node.id": str(CONTROLLER_ID),
        "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "log.dirs": str(cluster.controller_directory),
        **cluster.controller_settings,
    }


def broker_settings(cluster: Cluster, broker: Broker, controller_port: int) -> dict[str, str]:
    """Of a broker: small numbers of threads, one replica of Kafka's own topics."""
    listening = {"CLIENT": broker.client_port, "INTERNAL": broker.internal_port, **cluster.listeners}
    advertised = listening | {"CLIENT": broker.advertised_port}
    return {
        "process.roles": "broker",
        "node.id": str(broker.node_id),
        "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listening.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in advertised.items()),
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "log.dirs": str(broker.log_directory),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "3",
        **({"broker.rack": cluster.racks[broker.node_id]} if cluster.racks else {}),
        **cluster.settings,
    }


def format_properties(settings: Mapping[str, str]) -> str:
    """The text of a file of properties."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())
