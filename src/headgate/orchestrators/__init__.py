"""Who hands out attempts."""
