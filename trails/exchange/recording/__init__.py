"""Record agents while they run: follow their transcripts, and take what their hooks say."""
