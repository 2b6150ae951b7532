"""Fast steps that follow one another on the device."""
