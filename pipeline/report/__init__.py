"""The report: one HTML file per cluster and window that shows all of it, read from the tables without a JVM."""
