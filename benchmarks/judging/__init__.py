"""How often the judge is wrong, how long it takes to be right, and what it never lets pass."""
