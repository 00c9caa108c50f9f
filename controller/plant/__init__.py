"""The plant model: a step curve fitted on line, and the laws proposed from it."""
