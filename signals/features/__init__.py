"""The feature stage: decode, dedupe, join, fold into windows; and its readers."""
