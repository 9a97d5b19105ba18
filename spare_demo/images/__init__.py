"""Files to pictures, pictures to model input, and where each visual token lies on the picture."""
