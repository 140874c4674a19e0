"""Floor 1: the arithmetic of quotas; whoever keeps the numbers implements its port."""
