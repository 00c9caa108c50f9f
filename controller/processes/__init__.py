"""One machine's processes: started, watched, brought back, stopped."""
