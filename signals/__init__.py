"""Floor 0. Feedback signals: events, the bus, and the features made from them.

"Signal" always means a feedback event here (basic, semantic or business), never an OS signal.
Knows nothing of policies, engines or the controller.
"""
