"""Records that a careless or hostile client may publish, and what has to become of each."""
