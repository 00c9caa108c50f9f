"""The control plane over HTTP: one router per noun, one table of who may do what."""
