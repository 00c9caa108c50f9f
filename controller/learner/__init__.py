"""Proposes what to try next: contextual bandits over setpoints and laws, and their rivals."""
