"""Floor 0: HTTP as bytes, without I/O."""
