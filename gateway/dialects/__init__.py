"""Floor 1: what a body means in each API, and how its answers look."""
