"""The chart of availability zones: bytes from each zone to each, and what they cost."""

from pipeline.model.number_text import format_bytes, format_name
from pipeline.report import queries
from pipeline.report.answers import AnswerRow
from pipeline.report.table_chart import ChartColumn, Point, Rows, TableChart, Words

_SHOWN = 30
_SOURCES = {"client": "its client says", "rack_aware": "its records show", "brokers": "brokers", "unknown": "not known"}


def _say(rows: Rows) -> str:
    between = sum(row["size_bytes"] for row in rows if row["is_between_zones"])
    produced = [row for row in rows if row["kind"] == "produce"]
    across = sum(row["size_bytes"] for row in produced if row["is_between_zones"])
    whole = sum(row["size_bytes"] for row in produced) or 1
    assumed = sum(row["size_bytes"] for row in produced if row["zone_source"] in {"assumed", "unknown"}) / whole
    costs = [row["cost_per_month"] for row in rows if row["cost_per_month"] is not None]
    money = f", {sum(costs):,.2f} a month at your price" if costs else ""
    guess = f" Where producers of {assumed:.0%} of the bytes are is assumed." if assumed else ""
    return f"{format_bytes(between)} go from zone to zone{money}; of what is produced {across / whole:.0%}.{guess}"


def _name(row: AnswerRow) -> str:
    return f"{row['from_zone'] or 'not known'} to {row['to_zone'] or 'not known'}"


def _name_source(source: str) -> str:
    return format_name(_SOURCES.get(source, source))


ZONES = TableChart(
    name="zones",
    sql=queries.ZONES,
    title="Bytes from zone to zone",
    says=_say,
    most_rows=_SHOWN,
    columns=(
        Words("kind", "kind"),
        Words("zones", _name),
        Words("zone known by", "zone_source", _name_source),
        ChartColumn("bytes", "size_bytes", format_bytes),
        ChartColumn("a month", "cost_per_month", "{:,.2f}".format),
    ),
    marks=(Point(lambda row: "hot" if row["is_between_zones"] else "bar", "size_bytes", format_bytes, start=0.0),),
    legend=(("hot", "from zone to zone"), ("bar", "within a zone")),
    is_marked=lambda row: bool(row["is_between_zones"]),
)
