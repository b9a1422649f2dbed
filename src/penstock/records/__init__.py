"""Record batches: header view, builder, validation, compression, control records, vectorised kernels."""
