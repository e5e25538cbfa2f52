"""Artifacts that run somewhere else: under emulation, or on a device behind ssh or adb."""
