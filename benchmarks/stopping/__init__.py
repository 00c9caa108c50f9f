"""How fast an operator's hold and kill are read back, whatever else is broken."""
