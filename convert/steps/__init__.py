"""What the parent process does, one file per step; each starts workers that run the matching ``convert.stages``."""
