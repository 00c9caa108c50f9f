"""The two listeners of an engine: the chat API and control."""
