"""`make scale`: what jobs cost on Spark's own cluster as executors and traffic grow."""
