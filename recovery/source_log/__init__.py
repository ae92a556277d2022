"""What a source has read, kept on the device until the epoch that holds it is committed."""
