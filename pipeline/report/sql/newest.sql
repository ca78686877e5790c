SELECT max(window_start) AS newest FROM gold.broker_share WHERE cluster = {cluster} AND window_start < {end}
