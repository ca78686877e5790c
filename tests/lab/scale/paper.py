"""The tables of measured scaling, and what they make of 1, 10 and 100 TB a day."""

import math
import os
from collections import defaultdict
from statistics import median

from tests.lab.scale.event_log import format_histogram

STEPS = {"ingest_windows": "ingest", "replay_windows": "replay", "judge_windows": "health"}
SPEED_UP, FLAT = 1.8, 0.10  # bars
MEGA, GIGA, TERA = 10**6, 10**9, 10**12
WINDOWS_A_DAY, HALF_HOUR_S = 24, 1800
BOUNDS_S = (0.25, 0.5, 1, 2, 4, 8)
HEAVY = "one large topic"
GROWN = ("1x on 2", "4x on 2", "16x on 2")


def format_paper(found):
    """All tables that there are figures for, by name of the run."""
    grown = [name for name in GROWN if name in found]
    largest = grown[-1]
    tables = [format_growth([found[name] for name in grown])]
    if {"4x on 1", "4x on 2"} <= found.keys():
        tables.insert(0, format_speed_up(found["4x on 1"], found["4x on 2"]))
    if HEAVY in found:
        tables.append(format_heavy(found[HEAVY]))
    if len(grown) > 1:
        tables.append(format_capacity(found[grown[0]], found[largest], largest.split()[0]))
    loads = ", ".join(f"{name} {figures.load:.0f}" for name, figures in found.items())
    missing = [name for name in (*GROWN, "4x on 1", HEAVY) if name not in found]
    tables.append(f"Load of the machine of {os.cpu_count()} cores in the minute before each run: {loads}.")
    if missing:
        tables.append(f"Not measured: {', '.join(missing)}.")
    return "\n".join(tables)


def judge(text, *, is_met):
    """A figure beside its bar.

    >>> judge("1.7", is_met=False)
    '1.7 **missed**'
    """
    return text if is_met else f"{text} **missed**"


def make_table(head, rows):
    """Markdown.

    >>> print(make_table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "---" else cell for cell in line) + "|" for line in lines)


def format_speed_up(one, two):
    """The same traffic on one executor and on two."""
    rows = []
    for step, name in STEPS.items():
        alone, both = one.steps[step], two.steps[step]
        row = [name, f"{alone.wall_s:.1f}", f"{both.wall_s:.1f}"]
        ratio = alone.wall_s / both.wall_s
        row.append(judge(f"{ratio:.2f}", is_met=ratio >= SPEED_UP))
        if both.busy_s:
            busy = alone.busy_s / both.busy_s
            busiest = max(both.by_executor_s.values())
            row += [f"{alone.busy_s:.1f}", f"{both.busy_s:.1f}", judge(f"{busy:.2f}", is_met=busy >= SPEED_UP)]
            row += [f"{alone.task_s:.1f}", f"{both.task_s:.1f}", f"{both.task_s / busiest:.2f}"]
        else:
            row += ["none"] + 5 * [""]
        rows.append(row)
    head = ["job", "s on 1 executor", "on 2", f"speed-up (bar {SPEED_UP})", "s while tasks ran, on 1", "on 2"]
    head += [f"their speed-up (bar {SPEED_UP})", "task-s on 1", "on 2", "task-s of both over those of the busier one"]
    return f"{one.records // MEGA} M records, {one.log_bytes / GIGA:.2f} GB of log:\n\n{make_table(head, rows)}\n"


def format_growth(runs):
    """More and more traffic on two executors."""
    rows = []
    for step, name in STEPS.items():
        first = runs[0]
        for run in runs:
            now, before, times = run.steps[step], first.steps[step], run.records / first.records
            cpu_growth = _sum_cpu_s(now) / _sum_cpu_s(before) / times
            growth = now.wall_s / before.wall_s / times
            memory_growth = (now.python_bytes + now.jvm_bytes) / (before.python_bytes + before.jvm_bytes)
            row = [name, f"{times:.0f}x", f"{run.records / MEGA:.0f}", f"{now.wall_s:.1f}", f"{now.task_s:.1f}"]
            row += [f"{now.executor_cpu_s:.1f} + {now.driver_cpu_s:.1f}", f"{_sum_cpu_s(now) * MEGA / run.records:.2f}"]
            row += [judge(f"{one:.2f}", is_met=abs(one - 1) <= FLAT) for one in (cpu_growth, growth)]
            row += [f"{now.driver_bytes / MEGA:.1f}", f"{now.shuffle_bytes / MEGA:.1f}"]
            row.append(f"{now.python_bytes >> 20} + {now.jvm_bytes >> 20}")
            row.append(judge(f"{memory_growth:.2f}", is_met=memory_growth <= 1 + FLAT))
            rows.append(row)
    bar = f"over that of 1x (bar {1 - FLAT:.1f} to {1 + FLAT:.1f})"
    head = ["job", "traffic", "M records", "s", "task-s", "CPU-s of executors + driver", "CPU-s per M records", bar]
    head += [f"s per M records {bar}", "MB sent to the driver", "MB shuffled", "driver, MiB: Python + JVM"]
    head.append(f"over that of 1x (bar {1 + FLAT:.1f})")
    return f"{make_table(head, rows)}\n\n{format_marginal(runs)}"


def format_marginal(runs):
    """What traffic costs beyond what every run does, from the last two of several runs."""
    if len(runs) < 2:
        return ""
    (few, many), added = runs[-2:], (runs[-1].records - runs[-2].records) / MEGA
    costs = []
    for step, name in STEPS.items():
        before, now = few.steps[step], many.steps[step]
        cpu_s, seconds = _sum_cpu_s(now) - _sum_cpu_s(before), now.wall_s - before.wall_s
        costs.append(f"{name} {cpu_s / added:.2f} CPU-s, {seconds / added:.2f} s")
    return f"What each further million records costs between the last two: {'; '.join(costs)}.\n"


def _sum_cpu_s(step):
    return step.executor_cpu_s + step.driver_cpu_s


def format_heavy(run):
    """Task times of the stages that hold most of each step's work."""
    rows = []
    for step, name in STEPS.items():
        stages = defaultdict(list)
        for stage, seconds in run.tasks[step]:
            stages[stage].append(seconds)
        largest = sorted(stages.items(), key=lambda item: -sum(item[1]))[:3]
        for _, times_s in largest:
            if sum(times_s) >= 1:
                row = [name, str(len(times_s)), f"{sum(times_s):.1f}", f"{median(times_s):.2f}", f"{max(times_s):.2f}"]
                row += [f"{max(times_s) / sum(times_s):.0%}", format_histogram(times_s, BOUNDS_S)]
                rows.append(row)
    bounds = ", ".join(f"{bound:g}" for bound in BOUNDS_S)
    head = [
        "job, its largest stages",
        "tasks",
        "task-s",
        "median s",
        "longest s",
        "of all",
        f"tasks below {bounds} s, above",
    ]
    return f"{make_table(head, rows)}\n"


def format_capacity(first, run, name):
    """Amounts of traffic a day, from what the largest run cost."""
    measured_tb = run.log_bytes * WINDOWS_A_DAY / TERA
    days_tb = (1, 10, 100)
    times = [tb / measured_tb for tb in days_tb]
    steps, rows = list(run.steps.values()), []
    executors_s, driver_s = sum(one.executor_cpu_s for one in steps), sum(one.driver_cpu_s for one in steps)
    alone_s = sum(one.wall_s - one.busy_s for one in steps)

    def add(quantity, value, cells, source):
        rows.append([quantity, value, *cells, source])

    def add_scaled(quantity, value, source, unit=1.0):
        add(quantity, f"{value / unit:,.3g}", [f"{value * one / unit:,.0f}" for one in times], source)

    add_scaled("GB of log per hourly window", run.log_bytes, "arithmetic", GIGA)
    add_scaled("CPU-s of executors per window, three jobs", executors_s, f"{name}, by bytes")
    add_scaled("CPU-s of the driver per window", driver_s, f"{name}, by bytes")
    cores = [max(1, math.ceil(executors_s * one / HALF_HOUR_S)) for one in times]
    add(
        "cores of executors that do it in half an hour", "2 (sooner)", [str(one) for one in cores], "CPU-s over 1,800 s"
    )
    minutes = [(executors_s / count + alone_s) * one / 60 for one, count in zip(times, cores, strict=True)]
    value = f"{sum(one.wall_s for one in steps) / 60:.1f}"
    source = f"CPU-s over cores, and by bytes the seconds of {name} in which no task ran"
    add("minutes per window with them", value, [f"{one:,.0f}" for one in minutes], source)
    memory_gib = run.executor_bytes / 2**30
    source = f"peak of the larger executor of {name}, by cores"
    add("GiB of executors", f"{2 * memory_gib:.1f}", [f"{count * memory_gib:,.0f}" for count in cores], source)
    most, before = (max(one.python_bytes for one in figures.steps.values()) for figures in (run, first))
    jvm, grown = max(one.jvm_bytes for one in steps), max(0, most - before) / (1 - first.log_bytes / run.log_bytes)
    driver = [(most + jvm + grown * (one - 1)) / 2**30 for one in times]
    source = f"{name}, and by bytes what Python's peak grew by from 1x"
    add("GiB of the driver", f"{(most + jvm) / 2**30:.1f}", [f"{one:,.1f}" for one in driver], source)
    add_scaled("GB shuffled per window", sum(one.shuffle_bytes for one in steps), f"{name}, by bytes", GIGA)
    add_scaled("GB added to the warehouse per window", sum(run.warehouse_bytes.values()), f"{name}, by bytes", GIGA)
    head = [
        "",
        f"{measured_tb:.2f} TB a day ({name}), measured",
        *(f"{tb} TB a day, extrapolated" for tb in days_tb),
        "from",
    ]
    largest = ", ".join(
        f"`{name}` {size / run.log_bytes:.1%}" for name, size in list(run.warehouse_bytes.items())[:5] if size
    )
    return f"{make_table(head, rows)}\n\nOf a byte of log the warehouse keeps most in {largest}.\n"
