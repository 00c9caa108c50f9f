"""What arrives at a simulated engine: read from traces, made by processes, then reshaped.

::

    kinds      which intent and class a request is          lengths   how many tokens
    azure, mooncake, servegen                               readers of public traces
    poisson, waves, change, flood                           processes without a trace
    shaping    merged, faster, thinned, windowed, rate-scaled

Readers take lines that somebody else opened; whatever is drawn comes from a generator that is an
argument: the same seed offers the same requests.
"""
