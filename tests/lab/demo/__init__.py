"""The demonstration: `make run` takes the committed capture through Airflow and prints what came of it."""
