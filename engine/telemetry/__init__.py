"""What the engine tells: signals to ingest, traces, figures for scraping."""
