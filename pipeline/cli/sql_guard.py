"""Guard of `sql`: it runs queries over the tables, writes nothing, runs no program and reads no other file.

References:
    Spark parses `INSERT OVERWRITE DIRECTORY` and `SELECT TRANSFORM ... USING 'program'` as plans that are not commands, so
    the kinds of plan that may stand at the top are listed. Paths in place of tables (``text.`/etc/passwd` ``) are refused
    by `spark.sql.runSQLOnFiles`, `delta.` ones included; `reflect` and its kin call any static method of the JVM. Options of
    a table (`FROM a WITH ('fs.file.impl' = ...)`, Spark 4.0) become settings of Hadoop's and Parquet's readers, which load
    classes by name and read serialized Java objects from them.
"""

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from pipeline.errors import ConfigError

_QUERIES = frozenset({
    "Aggregate", "Distinct", "Except", "Filter", "GlobalLimit", "Intersect", "LimitAll", "LocalLimit", "LocalRelation",
    "Offset", "OneRowRelation", "Project", "RepartitionByExpression", "Sort", "SubqueryAlias", "Union",
    "UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation", "UnresolvedWith",
    "WithWindowDefinition",
})  # fmt: skip  # as many a line as fit
_LISTINGS = frozenset({
    "DescribeFunction", "DescribeNamespace", "DescribeRelation", "DescribeRelationCommand", "ShowColumns",
    "ShowFunctions", "ShowNamespaces", "ShowNamespacesCommand", "ShowTables", "ShowTablesCommand", "ShowViews",
})  # fmt: skip  # as many a line as fit
_ABOUT = {"DescribeQueryCommand": "plan", "ExplainCommand": "logicalPlan"}
"""Statements about another one, by where they keep it: that is planned, and has to be a query as well."""
_INSIDE = re.compile(
    "ScriptTransformation|InsertInto(Dir|Statement)|DeleteFromTable|UpdateTable|MergeIntoTable|table_changes_by_path"
    "|PlanWithUnresolvedIdentifier",
    re.IGNORECASE,
)
"""Nodes that change data or run a program and may occur below a query's, such as `WITH ... INSERT`; texts that say so are refused too.

`IDENTIFIER(...)` is among them because it shows no options of its table."""
_RELATION = "UnresolvedRelation"
_CALLS = (
    *("reflect", "java_method", "try_reflect"),  # any static method of the JVM
    *("from_xml", "schema_of_xml"),  # their option `rowValidationXSDPath` opens a file
    *("from_protobuf", "to_protobuf"),  # and so does a descriptor's path
    "xpath",  # reads the file, or asks the server, that a document's DTD names
    *(f"xpath_{kind}" for kind in ("boolean", "double", "float", "int", "long", "number", "short", "string")),
    *("from_avro", "to_avro", "schema_of_avro"),  # whose reader takes options of its own; no table holds any
)  # functions that a session does without; none has a use for our tables


def restrict_session(spark: SparkSession) -> None:
    """Takes from a session what reads files by path, in options too, or calls the JVM."""
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    spark.conf.set("spark.sql.variable.substitute", "false")  # `${env:NAME}` would tell a password
    spark.conf.set("spark.sql.legacy.extraOptionsBehavior.enabled", "true")  # leaves options of tables aside
    registry = _session_state(spark).functionRegistry()
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    for name in _CALLS:
        registry.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))


def refuse_changes(spark: SparkSession, statement: str) -> None:
    """Refuses by `ConfigError` what is not a query, or runs a program; `ParseException` if it is not SQL."""
    plan = _session_state(spark).sqlParser().parsePlan(statement)
    while (kind := plan.nodeName()) in _ABOUT:
        plan = getattr(plan, _ABOUT[kind])()
    text = plan.toString() if kind in _QUERIES else ""
    inside = _INSIDE.search(text)
    if inside is not None or kind not in _QUERIES | _LISTINGS:
        word = inside.group() if inside else kind
        raise ConfigError(f"sql only queries the tables (SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN); found {word}")
    relations = list(_relations(plan)) if text else []
    if any(len(one.options()) for one in relations) or text.count(_RELATION) != len(relations):
        raise ConfigError("sql takes no options of a table (WITH after its name)")


def _relations(plan: Any) -> Iterator[Any]:  # noqa: ANN401  (the JVM's)
    if plan.nodeName() == "RelationTimeTravel":
        plan = plan.relation()
    if plan.nodeName() == _RELATION:
        yield plan
    for below in (plan.innerChildren(), plan.children()):
        for number in range(below.size()):
            yield from _relations(below.apply(number))


def _session_state(spark: SparkSession) -> Any:  # noqa: ANN401  (the JVM's)
    return spark._jsparkSession.sessionState()  # noqa: SLF001  (pyspark has no parser and no registry of its own)
