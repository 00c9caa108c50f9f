"""What the sample users ask. Short on purpose: a small model on a CPU answers."""

from __future__ import annotations

JOBS = (
    "Name a colour.",
    "Say yes or no: is water wet?",
    "One word for happy.",
    "Label this: 'great shoes'.",
    "Translate 'cat' to French.",
    "Sum up: it rained all day.",
    "What rhymes with blue?",
    "Tag this: 'late parcel'.",
)

CHATS = (
    "Give me a tip for a calm morning.",
    "Why is the sky blue?",
    "What should I cook with rice?",
    "Tell me something about whales.",
    "How do I greet a new neighbour?",
    "Explain what a river delta is.",
    "Suggest a name for a small bakery.",
    "What makes bread rise?",
)
