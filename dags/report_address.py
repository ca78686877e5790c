"""Where reports are below Airflow's own address. Loads nothing: Airflow imports it in every process."""

URL_PREFIX = "/partition-health"
