"""Rule to finding to incident to message to delivery."""
