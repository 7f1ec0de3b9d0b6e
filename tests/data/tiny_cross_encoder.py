"""A CrossEncoder of a few kilobytes with random weights from a seed, saved to a folder."""

from __future__ import annotations

from pathlib import Path


def write_cross_encoder(folder: Path, *, n_labels: int = 1) -> Path:
    """Save a two-layer BERT over characters that scores pairs; returns its folder."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    from tasks.quieting import quiet_libraries

    characters = [chr(code) for code in range(33, 127)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters]
    words += [f"##{character}" for character in characters]
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=128,
        num_labels=n_labels,
        initializer_range=0.5,  # scores that differ
    )
    with quiet_libraries():
        BertForSequenceClassification(config).save_pretrained(folder)
        numbers = {word: number for number, word in enumerate(words)}
        BertTokenizerFast(vocab=numbers, model_max_length=128).save_pretrained(folder)
    return folder
