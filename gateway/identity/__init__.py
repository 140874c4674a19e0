"""Floor 1: the resource server: who vouches for a caller, and the proof that one was verified."""
