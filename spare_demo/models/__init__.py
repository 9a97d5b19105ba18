"""Models that see and answer: a catalogue of checkpoints and the LLaVA they are loaded into."""
