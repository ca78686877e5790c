"""Racks that are missing, renamed, alone or many, from tables to `what-if`: a sentence each. Oracle: the proxy's sum of bytes."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pipeline.config.pipeline_config import Spark
from pipeline.errors import NothingUsableError
from pipeline.jobs import measure_rules, score_health
from pipeline.storage.engines import running_engine
from pipeline.tables.bronze import BROKERS
from pipeline.tables.gold import ZONE_TRAFFIC
from pipeline.tables.health import RULE_MEASURES
from tests.lab.archive import unpack
from tests.lab.fidelity.pairs.pair import decode_pair
from tests.lab.fidelity.pairs.tables import zones_of
from tests.lab.rack_aware.judged import advise, judge_capture

ARCHIVE = Path(__file__).parents[1] / "data/zone_draws/00/zones-03-1-before.tar.zst"
NO_RACK = "no broker has a rack: set broker.rack"


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A judged window, its producers in zones c and b by the configuration, and all bytes that they sent."""
    folder = tmp_path_factory.mktemp("zones")
    capture = unpack(ARCHIVE, folder / "capture")
    manifest = json.loads((capture / "manifest.json").read_text())
    zones = zones_of(decode_pair(manifest["pair"]))
    run = judge_capture(capture, folder / "tables", [manifest["topic"]], zones)
    return run, sum(sum(of.values()) for of in manifest["zones"]["sent"].values())


@pytest.mark.parametrize(
    ("racks", "notes", "zones"),
    [
        ("aabc", [], "abc"),
        ("aab-", ["Of broker 3 no rack is known", "No broker is in zone c, where producers are"], "ab"),
        (["x", "x", "y", "z"], ["No broker is in zones b, c, where producers are"], "xyz"),  # renamed
        ("cccc", ["All brokers with a rack are in c", "No broker is in zone b, where producers are"], ""),
        ([f"rack-{number}" for number in range(4)], ["No broker is in zones b, c"], [f"rack-{n}" for n in range(4)]),
        ("----", NO_RACK, ""),
    ],
)
def test_bad_racks_are_told_in_sentences(judged, tmp_path, racks, notes, zones):
    run, sent_bytes = judged
    brokers = DeltaTable(run.warehouse / "bronze/brokers")
    for number, rack in enumerate(racks):
        told = "NULL" if rack == "-" else f"'{rack}'"
        brokers.update(updates={"rack": told}, predicate=f"broker_id = {number}")
    assert [row["rack"] for row in sorted(run.rows(BROKERS), key=lambda row: row["broker_id"])] == [
        None if rack == "-" else rack for rack in racks
    ]
    with running_engine(Spark(engine="sail"), app_name="zones") as spark:
        score_health.run(spark, run, run.windows)
    measure_rules.run(run, run.windows)
    produced = sum(row["size_bytes"] for row in run.rows(ZONE_TRAFFIC) if row["kind"] == "produce")
    subjects = {row["subject"] for row in run.rows(RULE_MEASURES) if row["rule"] == "zone_share"}
    led = {f"zone {zone}" for zone in zones}
    assert subjects == led
    if notes is NO_RACK:
        assert produced == 0
        with pytest.raises(NothingUsableError, match=NO_RACK):
            advise(run, tmp_path)
        return
    assert produced == sent_bytes
    for said in advise(run, tmp_path).values():
        told = sorted(said["notes"], reverse=True)
        assert len(told) == len(notes), told
        assert all(note.startswith(begin) for note, begin in zip(told, sorted(notes, reverse=True), strict=True)), told
