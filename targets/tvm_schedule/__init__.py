"""Loop schedules for kernels of TVM on CPUs: fixed rules, no search, each result compared with what TVM makes."""
