"""Loop schedules for TVM's kernels on CPUs: fixed rules, no search, each result compared with the unscheduled kernel."""
