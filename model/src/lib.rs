//! What a model file says: metadata, tokenizer, chat template, tensors
