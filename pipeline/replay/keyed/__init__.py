"""Recorded keys through every candidate: by their stored hashes, key after key, exactly."""
