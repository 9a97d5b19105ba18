"""The methods in other people's programs."""
