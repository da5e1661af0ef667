"""What comes of results beyond decoding them: checked, remembered."""
