"""A process that dies, or whose disk is full, between a mail server's answer and the mark. Oracle: what real SMTP servers got."""

import os
import resource
import signal
import subprocess
import sys
from collections import Counter

from pipeline.storage.outbox import pending
from tests.unit.alerting.queued_mails import NOW_MS, message_ids, send
from tests.unit.alerting.smtp_servers import Mailbox, serving


class KillsAfterAnswering(Mailbox):
    """Kills the sender when it says good-bye: it has read the 250, and has not marked the message yet."""

    victim: int

    async def handle_QUIT(self, server, session, envelope):  # noqa: N802 - aiosmtpd calls it so
        os.kill(self.victim, signal.SIGKILL)
        return "221 too late"


SENDER = """
import sys
from pathlib import Path
from pipeline.errors import StorageError
from pipeline.config.mail import Smtp
from pipeline.jobs import deliver_alerts
from tests.unit.alerting.queued_mails import configure
config = configure(Path(sys.argv[1]))
for line in sys.stdin:
    try:
        deliver_alerts.run(config, Smtp(host="127.0.0.1", port=int(sys.argv[2]), tls="none"), now_ms=int(line))
        print("done", flush=True)
    except StorageError as error:
        print(error, flush=True)
"""


def start_sender(folder, smtp):
    arguments = [sys.executable, "-c", SENDER, str(folder), str(smtp.port)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_kill_between_the_servers_250_and_the_mark_repeats_one_message_with_its_id(config, tmp_path):
    with serving(mailbox := KillsAfterAnswering()) as smtp:
        sender = start_sender(tmp_path, smtp)
        mailbox.victim = sender.pid
        sender.communicate("0\n", timeout=600)
    with serving(later := Mailbox()) as smtp:
        send(config, smtp)
    assert sender.returncode == -signal.SIGKILL
    assert message_ids(mailbox) == message_ids(later)[:1]
    assert len(later.kept) == 2
    assert mailbox.kept[0] == later.kept[0]


class FillsTheDisk(Mailbox):
    """Takes the sender's disk away when it has the message: from then on no file of the sender may hold a byte."""

    victim: int

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd calls it so
        resource.prlimit(self.victim, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        return await super().handle_DATA(server, session, envelope)


def test_a_full_disk_repeats_one_message_once_however_many_runs_it_lasts(config, tmp_path):
    with serving(mailbox := FillsTheDisk()) as smtp:
        sender = start_sender(tmp_path, smtp)
        mailbox.victim = sender.pid

        def run(now_ms):
            sender.stdin.write(f"{now_ms}\n")
            sender.stdin.flush()
            return sender.stdout.readline()

        answers = [run(NOW_MS + hour * 3_600_000) for hour in range(10)]
        in_the_meantime = message_ids(mailbox)
        mailbox.victim = os.getpid()  # not its disk any more
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(sender.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        mailbox.__class__ = Mailbox
        last = run(NOW_MS + 10 * 3_600_000)
        sender.communicate(timeout=600)
    assert limits == resource.getrlimit(resource.RLIMIT_FSIZE)
    assert all("alert_outbox" in answer and "free space" in answer for answer in answers)
    assert in_the_meantime == message_ids(mailbox)[:1]
    assert last == "done\n"
    assert sorted(Counter(message_ids(mailbox)).values()) == [1, 2]
    assert pending(config.warehouse) == []
