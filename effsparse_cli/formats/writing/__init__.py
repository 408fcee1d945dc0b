"""Write files atomically, never over anything that was read, and write masks on their own."""
