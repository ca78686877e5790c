"""What this process and those it started cost, looked at several times a second: memory, CPU time."""

import contextlib
import os
import threading
from pathlib import Path


class Watch:
    """Calls `look` every `interval_s` for as long as the block lasts."""

    interval_s: float

    def __enter__(self):
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _run(self):
        while not self._done.wait(self.interval_s):
            self.look()

    def look(self):
        raise NotImplementedError


class PeakMemory(Watch):
    """The most that this process and its descendants hold at once, shared pages counted once each (PSS), in bytes."""

    interval_s = 0.5

    def __init__(self):
        self.most = 0

    def look(self):
        self.most = max(self.most, sum(measure_pss(pid) for pid in list_descendants(os.getpid())))


class CpuTime(Watch):
    """CPU-s of this process's descendants, each seen by itself.

    The times of children that were waited for leave Spark's Python workers out: their parent ignores its children's ends.
    """

    interval_s = 0.2

    def __init__(self):
        self._seen = {}

    @property
    def cpu_s(self):
        return sum(self._seen.values()) / os.sysconf("SC_CLK_TCK")

    def look(self):
        for pid in list_descendants(os.getpid()):
            if pid != os.getpid():
                self._seen[pid] = max(self._seen.get(pid, 0), measure_ticks(pid))


def list_descendants(root):
    """A process and all that descend from it."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def measure_ticks(pid):
    """What a process took of a processor, in ticks; 0 where it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def measure_pss(pid):
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:")), 0)
