"""The learner in the loop: what it may choose, what it is taught, what it keeps."""
