"""What the sample users ask. Short on purpose: a small model on a CPU answers."""

from __future__ import annotations

JOB = "Describe."
"""The system message of every job; without one the model's template adds a longer one."""

JOBS = (
    "the sea",
    "a quiet street",
    "an old clock",
    "the first snow",
    "a busy kitchen",
    "the night train",
    "a small garden",
    "the city at dawn",
)

CHAT = "Be kind."

CHATS = (
    "Give me a tip for a calm morning.",
    "Why is the sky blue?",
    "What should I cook with rice?",
    "Tell me something about whales.",
    "How do I greet a new neighbour?",
    "Explain what a river delta is.",
    "Suggest a name for a bakery.",
    "What makes bread rise?",
)
