"""Runners for the public suites that come with the packages; see ``scripts/public_suites.py``."""
