"""What `sql` lets through. Oracle: Spark's own parser and catalog, in a session of the project's."""

import re

import pytest
from pyspark.errors import AnalysisException

from pipeline.cli.sql import answer
from pipeline.cli.sql_guard import refuse_changes, restrict_session
from pipeline.errors import ConfigError

QUERIES = """\
SELECT 1
VALUES (1)
WITH a AS (SELECT 1) SELECT * FROM a
TABLE gold.verdicts
FROM a SELECT b
SELECT 1 UNION SELECT 2 EXCEPT SELECT 3
SELECT * FROM a ORDER BY 1 LIMIT 3 OFFSET 2
SELECT a, count(*) FROM b GROUP BY a HAVING count(*) > 1
SELECT a, sum(b) OVER w FROM t WINDOW w AS (PARTITION BY a)
FROM a |> WHERE b > 1
SHOW TABLES IN gold
SHOW DATABASES
DESCRIBE EXTENDED gold.verdicts
DESCRIBE QUERY SELECT 1
SELECT * FROM gold.verdicts VERSION AS OF 0
SELECT * FROM a, LATERAL (SELECT b) WHERE c IN (SELECT d FROM e) AND EXISTS (WITH f AS (TABLE g) FROM f)
EXPLAIN SELECT 1""".splitlines()

CHANGES = """\
DELETE FROM gold.verdicts
WITH a AS (SELECT 1) DELETE FROM b
UPDATE a SET b = 1
WITH a AS (SELECT 1) UPDATE b SET c = 1
MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN DELETE
INSERT INTO a SELECT 1
INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1
WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a
FROM a INSERT INTO b SELECT * INSERT INTO c SELECT *
SELECT TRANSFORM(a) USING 'cat' FROM b
SELECT (SELECT TRANSFORM(a) USING 'cat' AS (x) FROM b)
WITH q AS (SELECT TRANSFORM(a) USING 'cat' AS (x) FROM b) SELECT * FROM q
BEGIN DELETE FROM a; END
EXECUTE IMMEDIATE 'DELETE FROM gold.verdicts'
CREATE TABLE a (b int)
CREATE TEMP VIEW a USING csv OPTIONS (path '/etc/hostname')
DROP TABLE a
SET a = b
ADD JAR 'x'
CACHE TABLE a
VACUUM a
RESTORE TABLE a TO VERSION AS OF 1
EXPLAIN CREATE TABLE a (b int)
EXPLAIN SELECT TRANSFORM(a) USING 'cat' FROM b
SELECT * FROM IDENTIFIER('a') WITH ('path' = '/etc/hostname')
SELECT * FROM table_changes_by_path('/tmp', 0)""".splitlines()


@pytest.mark.parametrize("statement", QUERIES)
def test_a_query_is_let_through(classic, statement):
    refuse_changes(classic, statement)


@pytest.mark.parametrize("statement", CHANGES)
def test_what_changes_anything_or_runs_a_program_is_refused(classic, statement):
    with pytest.raises(ConfigError, match="sql only queries the tables"):
        refuse_changes(classic, statement)


OPTIONS = "WITH ('parquet.private.read.filter.predicate' = 'AAAA')"  # Parquet reads a Java object from it


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM a {OPTIONS}",
        f"SELECT * FROM a {OPTIONS.replace('(', '/**/(')} b JOIN c",
        f"WITH q AS (SELECT * FROM a {OPTIONS}) SELECT * FROM q",
        f"SELECT (SELECT max(b) FROM a {OPTIONS}), 'UnresolvedRelation [a], [], false'",
        f"SELECT * FROM `a], [], false` {OPTIONS}",
        f"SELECT * FROM STREAM a {OPTIONS}",
        f"SELECT 1 WHERE EXISTS (SELECT 1 FROM a JOIN LATERAL (SELECT * FROM b {OPTIONS}))",
        f"(SELECT 1 UNION TABLE a) EXCEPT (FROM b {OPTIONS} |> WHERE c IN (SELECT 1))",
        f"EXPLAIN SELECT * FROM a {OPTIONS}",
        f"DESCRIBE QUERY SELECT * FROM a {OPTIONS}",
    ],
)
def test_no_option_of_a_table_reaches_its_reader(classic, query):
    with pytest.raises(ConfigError, match="no options of a table"):
        refuse_changes(classic, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM text.`{file}`",
        "SELECT * FROM binaryFile.`{file}`",
        "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
        "SELECT java_method('java.lang.System', 'getProperty', 'user.home')",
        "SELECT try_reflect('java.lang.System', 'getProperty', 'user.home')",
    ],
)
def test_no_file_is_read_and_no_method_called(classic, tmp_path, query):
    (tmp_path / "secret").write_text("secret")
    of_sql = classic.newSession()
    restrict_session(of_sql)
    with pytest.raises(AnalysisException):
        of_sql.sql(query.format(file=tmp_path / "secret")).toArrow()


@pytest.mark.parametrize("name", ["", "builtin.", "system.builtin."])
@pytest.mark.parametrize(
    "call",
    [
        "from_xml('<a>1</a>', 'a STRING', map('rowValidationXSDPath', '{file}'))",
        "schema_of_xml('<a>1</a>', map('rowValidationXSDPath', '{file}'))",
        "from_protobuf(cast('x' AS binary), 'M', '{file}')",
        "from_avro(cast('x' AS binary), '{file}')",
        """xpath('<!DOCTYPE a SYSTEM "file://{file}"><a>&x;</a>', 'a')""",
        """xpath_string('<!DOCTYPE a SYSTEM "file://{file}"><a>&x;</a>', 'a')""",
        "reflect('java.lang.System', 'getProperty', 'user.home')",
    ],
)
def test_no_option_of_a_function_opens_a_file(classic, tmp_path, name, call):
    """Whether the file is there, a schema, or no file: the answer is the same line, so that nothing of it is told."""
    (tmp_path / "schema").write_text(XSD)
    (tmp_path / "text").write_text("no schema")
    of_sql = classic.newSession()
    restrict_session(of_sql)
    said = set()
    for file in ("schema", "text", "missing"):
        with pytest.raises(ConfigError) as refused:
            answer(of_sql, f"SELECT {name}{call.format(file=tmp_path / file)}", as_json=False)
        said.add(str(refused.value))
    (line,) = said
    assert line.startswith("[REQUIRES_SINGLE_PART_NAMESPACE]" if "system" in name else "[UNRESOLVED_ROUTINE]")
    assert len(line.splitlines()) == 1


def test_no_variable_of_the_environment_is_told(classic):
    of_sql = classic.newSession()
    restrict_session(of_sql)
    assert of_sql.sql("SELECT '${system:user.home}'").head()[0] == "${system:user.home}"


def test_no_function_that_reads_xml_or_avro_or_calls_java_is_left(classic):
    of_sql = classic.newSession()
    restrict_session(of_sql)
    left = [row[0] for row in of_sql.sql("SHOW FUNCTIONS").collect()]
    assert len(left) > 300
    assert [name for name in left if re.search("xml|xpath|avro|proto|reflect|java", name)] == ["to_xml"]


XSD = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:string"/></xs:schema>
"""


def test_an_error_says_what_is_wrong_and_shows_no_plan(classic):
    with pytest.raises(ConfigError) as failed:
        answer(classic, "SELECT missing FROM VALUES (1) AS t(a)", as_json=False)
    assert str(failed.value).startswith("[UNRESOLVED_COLUMN.WITH_SUGGESTION]")
    assert "Project" not in str(failed.value)
