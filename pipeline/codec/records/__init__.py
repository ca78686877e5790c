"""Records inside batches: decoded, counted by key, packed by arrival."""
