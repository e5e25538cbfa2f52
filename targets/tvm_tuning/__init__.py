"""Schedules that were found by measuring: searching for them, keeping them, and putting them into a module."""
