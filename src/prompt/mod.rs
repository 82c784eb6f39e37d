//! Tokenizers, and prompts of exactly N tokens as the engine will count them.
