"""What to do about a hot broker, and what each action would change."""
