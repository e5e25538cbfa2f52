"""What workers run: one file per stage, each with ``run(args, channel)``."""
