"""The engine that ships with Trimtab: SmolLM2-135M on the CPU, by kernels of its own."""
