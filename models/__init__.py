"""Loading every form of a model, and small reference models."""
