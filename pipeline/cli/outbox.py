"""Lists messages that are not delivered yet, why, and when they are tried again."""

import argparse
import time

from pipeline.cli.terminal import add_config_option, add_json_option, fields_of, print_answer, print_error, show_table
from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.jobs import daily_mail, deliver_alerts
from pipeline.jobs.deliver_alerts import DeliveryReport
from pipeline.model.number_text import format_clock, format_name
from pipeline.storage.outbox import check_kept, mark_retry, undelivered

_ALL = "all"


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--retry", metavar="MESSAGE_ID", help="try it (or `all`) with the next delivery, even if given up")
    add("--daily", action="store_true", help="queue today's mail about all clusters, once (mail.daily)")
    add("--send", action="store_true", help="deliver now what is due; with --retry all: everything")
    add_config_option(parser)
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    config = load_config(args.config)
    now_ms = time.time_ns() // 1_000_000  # the command line is where the clock is read
    check_kept(config.warehouse)
    if args.daily:
        daily_mail.run(config, now_ms=now_ms)
    messages = undelivered(config.warehouse)
    if args.retry is not None:
        chosen = [m for m in messages if args.retry == m.message_id or (args.retry == _ALL and not m.is_silenced)]
        if not chosen and args.retry != _ALL:
            raise ConfigError(f"no undelivered message {args.retry}; partition-health outbox lists them")
        for message in chosen:
            mark_retry(config.warehouse, message.message_id)
    report = deliver_alerts.run(config, config.mail.smtp, now_ms=now_ms) if args.send else DeliveryReport()
    for line in (*(f"sent: {address}" for _, address in report.deliveries), *report.notes):
        print_error(line)
    messages = undelivered(config.warehouse)
    rows = [
        {
            **fields_of(message, "message_id channel"),
            "state": "silenced" if message.is_silenced else "waits" if message.given_up_at_ms is None else "given up",
            "queued_at": format_clock(message.queued_at_ms),
            "attempt_count": message.attempt_count,
            "next_attempt_at": format_clock(message.next_attempt_at_ms) if message.next_attempt_at_ms else "at once",
            "last_error": message.last_error or "",
            "subject_line": message.subject_line,
        }
        for message in messages
    ]
    head = tuple(rows[0])[:-1] if rows else ()  # no subjects: too wide
    cells = [tuple(format_name(str(row[name]), 120) for name in head) for row in rows]
    print_answer(args, rows, show_table(head, cells) if rows else "everything is delivered\n")
    report.check()
    return 0
