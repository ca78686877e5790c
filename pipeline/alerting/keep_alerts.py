"""Alerts of open incidents are posted to Alertmanager again before they end there: no window may be judged for days."""

from contextlib import suppress

from pipeline.alerting.alertmanager import post_alert
from pipeline.alerting.mutes import Mute, read_mutes
from pipeline.config.mail import Alertmanager
from pipeline.config.pipeline_config import PipelineConfig
from pipeline.errors import ConfigError, DeliveryError
from pipeline.model.window import milliseconds_of
from pipeline.storage.outbox import list_fading, mark_posted_again

MOST_ALERTS = 200  # in one list, some 300 kB: proxies refuse 1 MB


def find_keep_ms(config: PipelineConfig, alertmanager: Alertmanager) -> int:
    """For how long an alert fires without news of its incident."""
    news = max(cluster.gate.repeat for cluster in config.clusters.values()) + config.window
    return milliseconds_of(max(alertmanager.keep, news))


def join_alerts(payloads: list[bytes]) -> bytes:
    """The list of several alerts: each of theirs is a list of one."""
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
                config.warehouse, alertmanager.name, config.clusters, now_ms - keep_ms // 2
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
