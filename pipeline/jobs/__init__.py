"""One file = one Airflow task: load, transform, save."""
