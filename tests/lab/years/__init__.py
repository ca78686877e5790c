"""What a warehouse of 1,000 hourly windows costs, measured: see `docs/RELIABILITY.md`."""
