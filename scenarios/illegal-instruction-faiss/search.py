"""Builds an index of vectors and searches it: what a worker of the job did for each part of the log."""

import faiss
import numpy

vectors = numpy.random.RandomState(0).rand(1000, 64).astype("float32")
index = faiss.IndexFlatL2(64)
index.add(vectors)
print("added", index.ntotal, flush=True)
print("nearest:", index.search(vectors[:5], 4)[1][:, 0])
