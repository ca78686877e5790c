"""Exporter pages against `prometheus_client.parser` on the same pages in the same process: `python -m tests.lab.bench.exposition_bench`.

Two pages: of a broker with 10,000 partitions (ten metrics a partition, as the exporter's example rules give them), and of
a Java producer, of the committed capture. "First" is a page of an exporter never met before, "next" one of an exporter
whose series are known, which all but the first of a run are.
"""

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pipeline.codec.metrics.exposition import ExpositionReader
from pipeline.codec.metrics.metric_names import Series
from tests.lab.archive import COMMITTED, unpack_once
from tests.lab.bench.figures import best_of, make_parser, print_figures

PARTITION_COUNT = 10_000
OF_LOG = ("size", "numlogsegments", "logstartoffset", "logendoffset")
OF_PARTITION = (
    *("underreplicated", "underminisr", "replicascount", "insyncreplicascount", "laststableoffsetlag", "atminisr"),
)


def keep_all(name, labels):
    return Series(name, tuple(labels.items()), name)


def make_broker_page(real_page):
    """The page of a broker of the capture, with more partitions."""
    lines = [
        f'kafka_{bean}_{metric}{{partition="{number % 50}",topic="topic-{number // 50}"}} {number * 12345.0:.4E}\n'
        for bean, metrics in (("log_log", OF_LOG), ("cluster_partition", OF_PARTITION))
        for metric in metrics
        for number in range(PARTITION_COUNT)
    ]
    return "".join(lines) + real_page


def parse_with_library(text):
    return sum(len(family.samples) for family in text_string_to_metric_families(text))


def measure_page(text, *, rounds):
    """Seconds of processor time a page costs, and millions of samples a second."""
    sample_count = parse_with_library(text)
    library_s = best_of(rounds, lambda: parse_with_library(text), time.thread_time)
    figures = {"samples": sample_count, "library_million_samples_per_s": sample_count / library_s / 1e6}
    for kind, choose in (("wanted", None), ("all", keep_all)):

        def new_reader(choose=choose):
            return ExpositionReader() if choose is None else ExpositionReader(choose)

        first_s = best_of(rounds, lambda: new_reader().read(text), time.thread_time)
        known = new_reader()
        assert known.read(text).sample_count == sample_count
        next_s = best_of(3 * rounds, lambda reader=known: reader.read(text), time.thread_time)
        figures |= {
            f"{kind}_first_s": first_s,
            f"{kind}_first_ratio": library_s / first_s,
            f"{kind}_next_million_samples_per_s": sample_count / next_s / 1e6,
            f"{kind}_next_ratio": library_s / next_s,
        }
    return figures


def measure(capture, *, quick):
    """Figures by page."""
    broker, producer = (
        min((capture / "scrapes" / folder).glob("*.prom")).read_text() for folder in ("brokers/0", "producers/orders")
    )
    rounds = 1 if quick else 3
    ExpositionReader().read(producer)  # kernels are loaded
    yield "page of 10,000 partitions", measure_page(make_broker_page(broker), rounds=rounds)
    yield "page of a producer", measure_page(producer, rounds=20 * rounds)


def main():
    arguments = make_parser(__doc__, quick="one round").parse_args()
    capture = unpack_once(COMMITTED, Path(__file__).parents[3] / "build")
    print_figures(measure(capture, quick=arguments.quick), as_json=arguments.json)


if __name__ == "__main__":
    main()
