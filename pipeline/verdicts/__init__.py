"""Measures compared with the limits of the configuration: verdicts, window by window. No IO."""
