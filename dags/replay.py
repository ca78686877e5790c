"""The DAG `replay`; `replay.md` is its page."""

from airflow.sdk import DAG, PartitionedAssetTimetable

from dags.defaults import INGESTED, REPLAYED, dag_settings, link_reports
from dags.phases import add_step

with DAG(schedule=PartitionedAssetTimetable(assets=INGESTED), **dag_settings("replay")) as dag:
    does = "Replays a cluster's windows, judges what came out."
    add_step("replay", "replay_windows", REPLAYED, does, priority=2, needs_one=False)  # `health` does not wait for it
    link_reports(dag)
