"""What is known of an incident: gathered from tables once, said the same way in mail and report."""
