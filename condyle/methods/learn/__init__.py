"""Learning: environments of many robots in one kernel, policies, and their training."""
