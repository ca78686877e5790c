"""The client's connections: the only module that knows kafka-python's inside, whose version is pinned.

Requests are ours, sent to the broker we name. The library believes whichever broker it asks where the brokers are; here it is what
most bootstrap addresses say. Where one alone answers, some brokers that it names are asked, too: another answer of the same one
would be a second vote. References: KIP-74 (Fetch), KIP-219 (a throttled connection stays silent), KIP-516 (topic ids).
"""

import copy
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from pipeline.errors import SourceUnreachableError
from pipeline.model.window import milliseconds_of
from pipeline.sources.live.diagnosis import find_address, login_options
from pipeline.sources.live.settings import LiveSettings, Secrets

RECEIVE_LIMIT_BYTES = 128 << 20  # a reply beyond it is refused; metadata of a million partitions takes some 100 MB
ASKED_ADDRESSES, ASKED_BROKERS = 3, 4  # for metadata: more answers are not compared
BROKERS_REQUEST = MetadataRequest(topics=[], allow_auto_topic_creation=False)
_FIRST_ANSWER_MS = 5_000  # to a connection, or to a question about addresses: a broker may be dead, and every task asks
_K = TypeVar("_K")
_V = TypeVar("_V")


def count_votes(answers: Sequence[Mapping[_K, _V]]) -> tuple[dict[_K, _V], list[_K]]:
    """What more than half of the answers say of each key (one without it says it is not there), and the keys where no such say the same."""
    agreed: dict[_K, _V] = {}
    contested = []
    for key in dict.fromkeys(chain.from_iterable(answers)):
        value, count = Counter(answer.get(key) for answer in answers).most_common(1)[0]
        if 2 * count <= len(answers):
            contested.append(key)
        elif value is not None:
            agreed[key] = value
    return agreed, contested


def fill_nulls(message: Any) -> Any:
    """Puts empty arrays in place of null ones: the library takes them anywhere, and no honest broker sends them."""
    fields = message.fields if isinstance(message, DataContainer) else {}
    for name in [name for name, field in fields.items() if field.is_array()]:
        held = getattr(message, name)
        if held is None:
            setattr(message, name, [])
        for each in held or ():
            fill_nulls(each)
    return message


class ClusterConnection(AbstractContextManager["ClusterConnection"]):
    """Connections to a cluster's brokers, made when needed; has a thread: make it after a fork, and close it."""

    def __init__(self, admin: KafkaAdminClient, source: LiveSettings) -> None:
        self.admin = admin
        self._manager = admin._manager  # noqa: SLF001  (see above)
        self._silent: set[int | str] = set()  # nodes that did not answer when they were asked for metadata
        self.source = source
        cluster = self._manager.cluster
        known = {_address_of(node) for node in cluster.bootstrap_brokers()}
        for address in set(source.bootstrap_servers[:ASKED_ADDRESSES]) - known:
            host, _, port = address.rpartition(":")
            node = MetadataResponse.MetadataResponseBroker(address, host.strip("[]"), int(port), None)
            cluster._bootstrap_brokers[address] = node  # noqa: SLF001  (see above)
        cluster._do_refresh_metadata = self._refresh  # noqa: SLF001  (see above)
        self._manager.config["socket_connection_setup_timeout_ms"] = _FIRST_ANSWER_MS

    def send(self, request: Any, broker_id: int | None = None) -> Any:
        """Sends a request in the newest version the broker knows, once; `KafkaError` where no answer comes in time."""

        async def sent() -> Any:
            return await self._manager.send(request, node_id=broker_id)

        return fill_nulls(self._manager.run(sent))

    def ask_metadata(self, request: Any) -> dict[str, Any]:
        """Replies by address, by most of which brokers have their addresses from then on; `KafkaError` without one."""
        replies: dict[str, Any] = self._manager.run(self._ask_metadata, request)
        return replies

    async def _refresh(self, _: object) -> None:  # in place of the library's own, which asks one broker
        await self._ask_metadata(BROKERS_REQUEST)

    async def _ask_metadata(self, request: Any) -> dict[str, Any]:
        cluster = self._manager.cluster
        replies = await self._ask(request, cluster.bootstrap_brokers()) or await self._ask(request, cluster.brokers())
        if not replies:
            self._silent.clear()
            raise KafkaConnectionError("no answer")
        self._take_addresses(replies.values())
        if len(replies) > 1:
            return replies
        asked, missing = set(replies), ASKED_BROKERS
        for _ in range(2):  # the second time in place of brokers that did not answer
            others = [node for node in cluster.brokers() if _address_of(node) not in asked][:missing]
            if not others:
                break
            answered = await self._ask(request, others)
            asked |= {_address_of(node) for node in others}
            missing -= len(answered)
            replies |= answered
            self._take_addresses(replies.values())
        return replies

    async def _ask(self, request: Any, nodes: Iterable[Any]) -> dict[str, Any]:
        """Replies by address of nodes that answered before; may run twice at once: the library refreshes addresses."""
        timeout_ms = _FIRST_ANSWER_MS if request is BROKERS_REQUEST else None
        sent = []
        for node in nodes:
            if node.node_id not in self._silent:
                try:
                    sent.append((node, self._manager.send(copy.copy(request), node.node_id, timeout_ms)))
                except KafkaError:  # its login was refused
                    self._silent.add(node.node_id)
        replies = {}
        for node, answer in sent:
            try:
                replies[_address_of(node)] = fill_nulls(await answer)
            except KafkaError:
                self._silent.add(node.node_id)
        return replies

    def _take_addresses(self, replies: Iterable[Any]) -> None:
        told = [{row.node_id: (row.host, row.port, row.rack) for row in reply.brokers} for reply in replies]
        agreed, _ = count_votes(told)
        if not agreed:
            raise KafkaConnectionError("bootstrap addresses name different brokers: nobody knows which are right")
        brokers = [(broker_id, *where) for broker_id, where in agreed.items()]
        self._manager.cluster.update_metadata(MetadataResponse(version=1, brokers=brokers, controller_id=-1, topics=[]))

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted(broker.node_id for broker in self._manager.cluster.brokers()))

    @property
    def unheard(self) -> tuple[str, ...]:  # of the bootstrap addresses
        return tuple(_address_of(n) for n in self._manager.cluster.bootstrap_brokers() if n.node_id in self._silent)

    def close(self) -> None:
        self.admin.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _address_of(node: Any) -> str:
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def connect(source: LiveSettings, secrets: Secrets | None = None) -> ClusterConnection:
    """Connects and learns the brokers, at an address that a probe chose; `SourceUnreachableError` has the cause, `ConfigError`: no secret.

    The library would log in again and again where a login is refused. With `secrets` of an earlier connection none is probed.
    """
    # The library repeats a cause with every attempt; we report it once.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    is_first = secrets is None
    secrets = secrets or source.client.read_secrets()
    addresses = source.bootstrap_servers
    while True:
        address = find_address(source, addresses, secrets, log_in=is_first)
        try:
            return _connect(source, address, secrets)
        except (KafkaError, OSError) as error:
            addresses = addresses[addresses.index(address) + 1 :]
            if not addresses:
                cause = f"live cluster {address}: {type(error).__name__}: {error}"
                raise SourceUnreachableError(cause) from error


def _connect(source: LiveSettings, address: str, secrets: Secrets) -> ClusterConnection:
    client = source.client
    admin = KafkaAdminClient(
        bootstrap_servers=[address],
        bootstrap_timeout_ms=milliseconds_of(source.connect_timeout),
        request_timeout_ms=milliseconds_of(source.request_timeout),
        reconnect_backoff_ms=250,
        reconnect_backoff_max_ms=5_000,
        receive_message_max_bytes=RECEIVE_LIMIT_BYTES,
        client_id=client.client_id,
        security_protocol=client.security_protocol,
        **({"ssl_context": client.tls_context(secrets)} if client.uses_tls else {}),
        **(login_options(client, secrets) if client.uses_sasl else {}),  # secrets among them: never to be logged
    )
    connection = ClusterConnection(admin, source)
    try:
        connection.ask_metadata(BROKERS_REQUEST)
    except KafkaError:
        connection.close()
        raise
    return connection
