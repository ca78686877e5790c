"""The DAGs from the wheel, taken up by one file in somebody else's folder of DAGs, as `docs/CONFIGURATION.md` shows it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
CONFIG = 'warehouse: w\noutbox: o\nclusters: {prod: {sources: [{kind: live_cluster, bootstrap_servers: "b:9092"}]}}\n'
USES = """
import mine, dags
assert dags.MINE
print(sorted(value.dag_id for value in vars(mine).values() if hasattr(value, "dag_id")))
"""


def test_one_file_takes_up_the_dags(tmp_path):
    subprocess.run([sys.executable, ROOT / ".ci" / "package.py", tmp_path], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as found:
        found.extractall(tmp_path / "site")
    (shown,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "CONFIGURATION.md").read_text(), re.DOTALL)
    (tmp_path / "own" / "dags").mkdir(parents=True)
    (tmp_path / "own" / "dags" / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "own" / "mine.py").write_text(shown)
    (tmp_path / "config.yaml").write_text(CONFIG)
    variables = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "PARTITION_HEALTH_CONFIG": str(tmp_path / "config.yaml"),
        "PYTHONPATH": os.pathsep.join(str(tmp_path / name) for name in ("own", "site")),
    }
    command, environment = [sys.executable, "-c", USES], {**os.environ, **variables}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['health', 'ingest', 'maintenance', 'replay']"
