"""Floor 3: what a reviewer runs before a policy goes live."""
