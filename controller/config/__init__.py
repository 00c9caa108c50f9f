"""The controller's configuration: section models, loading, problems named, the page."""
