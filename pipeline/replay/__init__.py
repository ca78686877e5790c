"""Partitioners and the simulator lifted over Spark rows; DataFrame in, DataFrame out, no IO."""
