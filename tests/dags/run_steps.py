"""Program: take steps in this one process, whose start costs more than most of them; print what each finds as JSON.

Argument: a JSON list of steps. `["set", {VARIABLE: VALUE}]` changes the environment (null: takes it out) and loads the DAG files
anew; `["run", DAG, WINDOW]` runs a DAG as `run_dags` does; `["ask", WINDOW, PARAMETER, NOTE]` is about what users may do, see
`ask_as_viewer`.
"""

import json
import os
import sys
import warnings

from dags.serve import DAGS_FOLDER
from tests.dags.ask_as_viewer import ask
from tests.dags.run_dags import run


def main() -> None:
    warnings.simplefilter("ignore")
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415  # where warnings are off: it prints some as it is

    bag, found = None, []
    for verb, *arguments in json.loads(sys.argv[1]):
        if verb == "set":
            (variables,) = arguments
            os.environ.update({name: value for name, value in variables.items() if value is not None})
            for name in [name for name, value in variables.items() if value is None]:
                del os.environ[name]
            bag = DagBag(str(DAGS_FOLDER))
        else:
            found.append({"run": run, "ask": ask}[verb](bag, *arguments))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
