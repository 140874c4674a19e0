"""Floor 2: the policy decision point: from the reviewed file to a verdict."""
