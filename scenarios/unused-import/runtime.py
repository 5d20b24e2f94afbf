"""What the two libraries share without knowing of each other."""

buffers = []
