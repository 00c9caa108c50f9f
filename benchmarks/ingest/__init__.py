"""What the feedback bus and the feature stage can take: ``python -m benchmarks.ingest``."""
