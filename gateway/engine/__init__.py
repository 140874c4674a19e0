"""Floor 2: engines as pure state: which replica is fit, and which one a request goes to."""
