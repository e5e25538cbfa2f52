"""Data for integer artifacts: reading what the user has, keeping it in batches, and measuring what integers cost.

The modules that the parent process imports (``asked``, ``gates``) are light; the others run in workers.
"""
