"""Floor 2. The plant: engines that can be steered while they run, and the adapters to them."""
