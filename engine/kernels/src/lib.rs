//! Batch-invariant number crunching; knows tensors and slices, no tenant
