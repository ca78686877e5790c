"""Recommendations for a hot broker, with the effect of each action."""
