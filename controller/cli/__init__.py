"""The ``trimtab`` command: processes, the operator's verbs, and questions to the control plane."""
