"""What each client does, as tuples of strategies; `registry` names the tuples."""
