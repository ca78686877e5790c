"""Laws of incidents' ids over all orders of windows: late, repeated, changed, missing.

A small twin of the job: windows come in batches in any order, every batch judges again from its first window on, and what is
stored in these windows is replaced. Oracle: the fold of today's verdicts without any memory says whether there is an incident.
"""

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.alerting.incidents import IncidentPolicy, fold_verdicts, open_before
from tests.incident_rows import new_verdict

SUBJECTS = ("broker 1", "broker 2")
RESOLVES_AT, LIMIT = 1.1, 1.2
READINGS = st.sampled_from([None, 1.0, 1.0, 1.15, 1.3, 1.3, 2.1])
"""Share ratios; None is a window that was not judged."""
MINUTE_MS = 60_000
STARTS = st.integers(0, 11).map(lambda number: number * MINUTE_MS)
BATCHES = st.lists(
    st.dictionaries(STARTS, st.tuples(READINGS, READINGS), min_size=1, max_size=4), min_size=1, max_size=14
)
"""Each is what one run brings: windows with both brokers' ratios; a window may come again, the same or another."""


@dataclass
class Job:
    """What the tables hold, and everything that people were told."""

    k: int
    n: int
    ratios: dict = field(default_factory=dict)
    stored: list = field(default_factory=list)
    told: list = field(default_factory=list)

    def judge(self):
        verdicts = []
        for place, subject in enumerate(SUBJECTS):
            above = []
            for start_ms in sorted(self.ratios):
                value = self.ratios[start_ms][place]
                above.append(value is not None and value >= LIMIT)
                count = sum(above[-self.n :])
                kind = "not_enough_traffic" if value is None else "ok"
                if above[-1]:
                    kind = "fail" if count >= self.k else "warn"
                of = {"value": value, "limit_value": LIMIT, "verdict": kind}
                judged = {"is_above": above[-1], "above_count": count}
                verdicts.append(new_verdict(start_ms, subject=subject, **of, **judged))
        return verdicts

    def fold(self, first_ms, verdicts, **memory):
        return fold_verdicts(
            [v for v in verdicts if v.window_start_ms >= first_ms],
            cluster="demo",
            policy_of=lambda _: IncidentPolicy(resolves_at=RESOLVES_AT, k=self.k),
            history=[v for v in verdicts if v.window_start_ms < first_ms],
            **memory,
        )

    def run(self, batch):
        newest = max(self.ratios, default=0)
        self.ratios |= batch
        first_ms = min(batch)
        before = [change for change in self.stored if change.window_start_ms < first_ms]
        known = [*(one.last for one in open_before(before, first_ms)), *self.stored[len(before) :]]
        began_ms = min([c.since_ms for c in known], default=first_ms)
        changes = self.fold(
            first_ms,
            self.judge(),
            open_incidents=open_before(before, first_ms),
            stored=[c for c in self.stored if c.window_start_ms >= min(began_ms, first_ms)],
            judged_until_ms=newest,
            taken={change.incident_id for change in before},
        )
        reported = {change.key for change in self.told}
        self.told += [change for change in changes if change.key not in reported]
        self.stored = [*before, *changes]

    def open(self):
        return {one.last.subject: one.last.incident_id for one in open_before(self.stored, 10**12)}

    def ids(self):
        return {change.incident_id for change in self.stored}


def minutes(*batches):
    """Batches of broker 1's ratios by minute; broker 2 is not judged."""
    return [{number * MINUTE_MS: (ratio, None) for number, ratio in batch.items()} for batch in batches]


RULES = st.integers(1, 3).flatmap(lambda k: st.tuples(st.just(k), st.integers(k, 4)))


@example((2, 2), minutes({0: None}, {0: None, 1: 1.3, 2: 1.3}, {1: None, 4: 1.0, 5: 1.0}, {3: 1.3}))  # opened before
@example(  # a message stays that lies behind the new end
    (1, 1), minutes({4: 2.1}, {2: 1.3}, {4: None, 3: 1.0}, {4: 1.3, 0: None}, {5: 1.0})
)
@example(  # over in a window that is folded again, by one before it
    (1, 4), minutes({4: 1.3, 7: 1.3}, {2: 1.3, 8: 1.0, 4: 1.0}, {7: None})
)
@example(  # an open id comes before a newer one that is over
    (3, 4), minutes({5: 1.3}, {9: 1.3, 10: 1.3}, {10: None}, {3: 1.3}, {0: 1.3})
)
@given(RULES, BATCHES)
def test_an_id_stays_from_its_first_message_to_its_end(rules, batches):
    job, ended, known = Job(*rules), {}, {}
    for batch in batches:
        newest, was_open, had = max(job.ratios, default=-1), job.open(), job.ids()
        job.run(batch)
        assert had <= job.ids()  # none is dropped
        assert len({change.key for change in job.stored}) == len(job.stored)
        for name in job.ids():
            own = [change for change in job.stored if change.incident_id == name]
            assert [change.state for change in own].count("new") == 1
            assert sum(not change.is_open for change in own) == (name not in job.open().values())
            assert known.setdefault(name, own[0].subject) == own[0].subject  # nor given to another
        assert not ended.keys() & set(job.open().values())  # what ended stays so
        ended |= dict.fromkeys(job.ids() - set(job.open().values()))
        if max(batch) <= newest:  # windows came late, none is new
            now = job.open()
            assert all(now.get(subject, name) == name for subject, name in was_open.items())


@example(  # withdrawn in 8, which comes again: it was open before, and today's verdicts have no incident there
    (2, 2),
    minutes({0: None}, {0: 1.3, 1: 1.3}, {0: None, 8: 1.3, 1: None}, {0: None, 1: None, 2: None, 9: 1.3}, {8: None}),
)
@example(  # resolved in 10, and withdrawn in truth
    (2, 2), minutes({0: None}, {0: 1.3, 1: 1.3}, {2: 1.0, 10: 1.0}, {0: None, 10: 1.3}, {11: 1.3}, {10: None})
)
@example((1, 1), minutes({7: 1.3, 4: 1.3}, {5: 1.0}, {7: None}))  # the failing window that kept it open is gone
@given(RULES, BATCHES)
def test_a_merged_id_says_into_which_and_nobody_is_without_an_incident_that_fails(rules, batches):
    job = Job(*rules)
    for batch in batches:
        job.run(batch)
        for change in job.stored:
            if change.merged_into is not None:
                (into,) = {one.subject for one in job.stored if one.incident_id == change.merged_into}
                assert not change.is_open
                assert (into, change.merged_into) != (change.subject, change.incident_id)
                assert into == change.subject
        verdicts = job.judge()
        whole = {one.last.subject for one in open_before(job.fold(0, verdicts), 10**12)}
        assert job.open().keys() <= whole
        for subject in whole - job.open().keys():  # told as over: since then no window failed
            until = max(change.window_start_ms for change in job.stored if change.subject == subject)
            assert not any(v.verdict == "fail" and v.window_start_ms > until for v in verdicts if v.subject == subject)


@given(RULES, BATCHES)
def test_messages_tell_one_start_and_once_that_it_moved(rules, batches):
    job, start = Job(*rules), {}
    for batch in batches:
        before = len(job.told)
        job.run(batch)
        for change in job.told[before:]:
            told = start.setdefault(change.incident_id, change.since_ms)
            assert change.moved_from_ms == (None if told == change.since_ms else told)
            start[change.incident_id] = change.since_ms
    assert len({change.key for change in job.told}) == len(job.told)


@example((1, 2), minutes({4: 1.3}, {4: None}, {1: 1.3}, {3: 1.0}))  # late, failing, and told by nothing so far
@given(RULES, BATCHES)
def test_the_same_windows_again_end_nothing_and_drop_nothing(rules, batches):
    job = Job(*rules)
    for batch in batches:
        job.run(batch)
    for batch in ({start_ms: job.ratios[start_ms]} for start_ms in sorted(job.ratios)):
        stored, was_open = job.ids(), job.open()
        job.run(batch)  # may find one that an earlier run could not write: it gives no change before its first window
        assert stored <= job.ids()
        assert was_open.items() <= job.open().items()


@given(RULES, st.lists(st.tuples(READINGS, READINGS), min_size=1, max_size=16), st.data())
def test_in_order_ids_are_those_of_one_run_however_the_windows_are_cut(rules, rows, data):
    windows = {number * MINUTE_MS: row for number, row in enumerate(rows)}
    one, many = Job(*rules), Job(*rules)
    one.run(windows)
    cuts = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    part = {}
    for start_ms, is_end in zip(windows, cuts, strict=True):
        part[start_ms] = windows[start_ms]
        if is_end or start_ms == max(windows):
            many.run(part)
            part = {}
    assert many.stored == one.stored
