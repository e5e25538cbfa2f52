"""Data for integer artifacts: reading what the user has, in batches that the model takes, and measuring with it."""
