"""Floor 3: the only place that awaits the outside world."""
