"""HTTP for the blocking client: engines that move bytes in the calling thread."""
