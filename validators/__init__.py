"""Numbers, tolerances and latency: what decides whether an artifact passes."""
