"""How an embedded engine is put together, and what the rest of the process sees of it.

::

    engine = build(settings, boundary=boundary, on_step=on_step)   # loads, compiles, calibrates
    engine.capacity            # Capacity(active_cap, step_token_budget, context, kv_blocks)
    engine.curve               # tuple[CurvePoint, ...], measured at boot
    engine.fingerprint         # model, weights, numeric class, version: one line
    engine.tokenizer.chat([{"role": "user", "content": "hi"}])   # -> tuple[int, ...]
    engine.worker.start()
    engine.worker.submit(generation, on_output)   # the Generator protocol
    engine.worker.failure      # the exception that stopped it, or None
    engine.worker.close()

The boundary usually needs the capacity before it can exist, so ``boundary`` is a factory:
``boundary(capacity: Capacity) -> Boundary``, called once after calibration.
"""
