"""What a warehouse of 1,000 hourly windows costs, measured: see `docs/evidence/reliability.md`."""
