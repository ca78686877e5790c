"""Incidents as alerts of Alertmanager (API v2), and its silences, whose expressions Arrow reads as Alertmanager does: by RE2."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import http_request
from pipeline.alerting.message import Content, format_subject, message_of
from pipeline.alerting.mutes import Mute, read_mutes
from pipeline.config.mail import Alertmanager
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.errors import ConfigError, DeliveryError, UnusableServerError
from pipeline.model.incident import SILENCED, AlertMessage, IncidentChange
from pipeline.model.number_text import format_name
from pipeline.model.window import format_instant, milliseconds_of, parse_instant
from pipeline.storage.outbox import list_fading, mark_posted_again

_MOST_BYTES = 16 << 20  # some 20,000 silences
_MOST_CHARACTERS = 10_000  # of an expression
_MOST_EXPRESSIONS, _MATCHING_S = 1_000, 10  # RE2 takes up to a tenth of a second to read one


@dataclass(frozen=True, slots=True, kw_only=True)
class Matcher:
    name: str
    value: str
    is_regex: bool
    is_equal: bool

    def hold(self, alerts: Sequence[Mapping[str, str]]) -> list[bool]:
        values = tuple(labels.get(self.name, "") for labels in alerts)
        if not self.is_regex:
            return [(value == self.value) is self.is_equal for value in values]
        matched = _match(self.value, values)
        return [matched is not None and found is self.is_equal for found in matched or values]


@lru_cache(maxsize=2 * _MOST_EXPRESSIONS)
def _match(expression: str, values: tuple[str, ...]) -> list[bool] | None:
    """Whether an RE2 expression matches whole values; None if it is too long or RE2 cannot read it, which it does once."""
    if len(expression) > _MOST_CHARACTERS:
        return None
    try:
        matched: list[bool] = pc.match_substring_regex(pa.array(values, pa.string()), f"^(?:{expression})$").to_pylist()
    except (pa.ArrowInvalid, UnicodeError):
        return None
    return matched


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    until_ms: int
    created_by: str
    comment: str
    matchers: tuple[Matcher, ...]
    further_labels: Mapping[str, str]  # that the configuration gives alerts of this Alertmanager

    def describe(self) -> str:
        said = f"{SILENCED} until {format_instant(self.until_ms)} by {self.created_by}: {self.comment}"
        return format_name(said, http_request.REASON_LIMIT)


def find_covering(silences: Sequence[Silence], alerts: Sequence[Mapping[str, str]]) -> list[list[Silence]]:
    """Silences that cover each alert, by `alert_labels`; `DeliveryError` if that takes longer than `_MATCHING_S`."""
    until_s = time.monotonic() + _MATCHING_S
    covering: list[list[Silence]] = [[] for _ in alerts]
    for silence in (one for one in silences if one.matchers):
        labelled = [{**labels, **silence.further_labels} for labels in alerts]
        is_covered = [True] * len(alerts)
        for matcher in silence.matchers:
            if time.monotonic() > until_s:
                raise DeliveryError(f"matching their expressions takes longer than {_MATCHING_S} s: use equality")
            is_covered = [both and one for both, one in zip(is_covered, matcher.hold(labelled), strict=True)]
        for own, covered in zip(covering, is_covered, strict=True):
            own.extend([silence] * covered)
    return covering


def alert_labels(cluster: str, rule: str, subject: str) -> dict[str, str]:
    """Labels of an incident's alert, by which Alertmanager routes, groups and silences it.

    >>> alert_labels("demo", "broker_share", "broker 1")["alertname"], alert_labels("demo", "r", "broker 1")["broker"]
    ('PartitionHealthBrokerShare', '1')
    """
    alertname = "PartitionHealth" + "".join(word.capitalize() for word in rule.split("_"))
    labels = {"alertname": alertname, "cluster": cluster, "rule": rule, "subject": subject, "severity": "critical"}
    kind, _, name = subject.partition(" ")
    return {**labels, kind: name} if kind in {"broker", "topic"} else labels


def render_alert(
    content: Content, change: IncidentChange, alertmanager: Alertmanager, *, report: str, now_ms: int
) -> AlertMessage:
    alert: dict[str, Any] = {
        "labels": {**alert_labels(content.cluster, change.rule, change.subject), **alertmanager.labels},
        "annotations": {
            "summary": format_subject(content.subject_line),
            "description": content.headline,
            "incident_id": change.incident_id,
            "state": change.state,
            "report": report,
        },
        "startsAt": format_instant(change.since_ms),
    }
    if report.startswith("http"):
        alert["generatorURL"] = report
    if not change.is_open:
        alert["endsAt"] = format_instant(now_ms)
    payload = json.dumps([alert], ensure_ascii=False).encode("utf-8", "backslashreplace")
    return message_of(content, payload, channel=alertmanager.name, now_ms=now_ms)


def post_alert(payload: bytes, alertmanager: Alertmanager, *, now_ms: int, keep_ms: int) -> str:
    """Posts an alert, which fires for `keep_ms` from now on if it is open; where it went. Raises as `webhook.post`."""
    alerts = [{"endsAt": format_instant(now_ms + keep_ms), **alert} for alert in json.loads(payload)]
    _ask(alertmanager, "POST", "alerts", alerts)
    return f"Alertmanager {alertmanager.name}"


def read_silences(alertmanager: Alertmanager) -> tuple[Silence, ...]:
    silences = _ask(alertmanager, "GET", "silences")
    try:
        active = tuple(_silence(one, alertmanager) for one in silences if one["status"]["state"] == "active")
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise DeliveryError(f"Alertmanager {alertmanager.name}: its list of silences is not of API v2") from error
    if (count := len({m.value for one in active for m in one.matchers if m.is_regex})) > _MOST_EXPRESSIONS:
        raise DeliveryError(
            f"Alertmanager {alertmanager.name}: its silences have {count:,} expressions, more than {_MOST_EXPRESSIONS:,}: "
            "they hold nothing back; end some, or use equality"
        )
    return active


def _silence(one: Mapping[str, Any], alertmanager: Alertmanager) -> Silence:
    matchers = tuple(
        Matcher(name=_text(m["name"]), value=_text(m["value"]), is_regex=m["isRegex"], is_equal=m.get("isEqual", True))
        for m in one["matchers"]
    )
    return Silence(
        until_ms=milliseconds_of(parse_instant(_text(one["endsAt"]))),
        created_by=one["createdBy"],
        comment=one["comment"],
        matchers=matchers,
        further_labels=alertmanager.labels,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in place of a text")
    return value


def _ask(alertmanager: Alertmanager, method: str, what: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    url, name = f"{alertmanager.url.rstrip('/')}/api/v2/{what}", f"Alertmanager {alertmanager.name}"
    try:
        client = alertmanager.async_client()
        request = client.build_request(method, url, json=body)
        answer, content = http_request.exchange_once(client, request, most_bytes=_MOST_BYTES)
    except http_request.EXCHANGE_ERRORS as error:
        reason = http_request.describe_exchange(error, alertmanager.hide)
        raise UnusableServerError(f"{name}: {reason}") from None  # the cause may hold a secret
    if not answer.is_success:
        reason = http_request.describe_words(content, alertmanager.hide)
        raise DeliveryError(f"{name} answered {answer.status_code}: {reason}")
    if len(content) > _MOST_BYTES:
        raise DeliveryError(f"{name}: its answer has more than {_MOST_BYTES:,} bytes")
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError) as error:
        raise DeliveryError(f"{name}: the answer is not JSON") from error


MOST_ALERTS = 200  # in one list, some 300 kB: proxies refuse 1 MB


def find_keep_ms(config: PipelineConfig, alertmanager: Alertmanager) -> int:
    news = max(cluster.gate.repeat for cluster in config.clusters.values()) + config.window
    return milliseconds_of(max(alertmanager.keep, news))


def join_alerts(payloads: list[bytes]) -> bytes:
    return payloads[0] if len(payloads) == 1 else b"[%s]" % b",".join(one[1:-1] for one in payloads)


def keep_firing(config: PipelineConfig, *, now_ms: int) -> list[str]:
    """Posts again what was posted half of its time ago; says which Alertmanager did not take it: a later run posts it."""
    notes: list[str] = []
    mutes: tuple[Mute, ...] = ()
    with suppress(ConfigError):  # whoever judges names what is wrong with the file
        mutes = read_mutes(config.mail.mutes)
    for alertmanager in config.mail.alertmanagers:
        keep_ms = find_keep_ms(config, alertmanager)
        fading = [
            (message_id, payload)
            for message_id, payload, cluster, incident_id, rule, subject in list_fading(
                config.warehouse, alertmanager.name, config.cluster_names, now_ms - keep_ms // 2
            )
            if not any(mute.fits(now_ms, cluster, rule, subject, [incident_id]) for mute in mutes)
        ]
        for at in range(0, len(fading), MOST_ALERTS):
            lot = fading[at : at + MOST_ALERTS]
            try:
                post_alert(join_alerts([payload for _, payload in lot]), alertmanager, now_ms=now_ms, keep_ms=keep_ms)
            except (DeliveryError, ConfigError) as error:
                notes.append(f"alerts of open incidents were not posted again, {len(fading) - at} in all: {error}")
                break
            mark_posted_again(config.warehouse, [message_id for message_id, _ in lot], now_ms=now_ms)
    return notes
