"""A backbone for SmolVLA of the real one's size (SmolVLM2-500M) with a made-up tokenizer, without the hub."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

SIDE, VOCABULARY = 512, 49280


def save_backbone(directory: Path) -> Path:
    """Save its config and processor; SmolVLA draws the weights."""
    # 256 base symbols: any prompt can be encoded, no merges, no training.
    symbols = {symbol: place for place, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    words = Tokenizer(models.BPE(vocab=symbols, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        bos_token="<|im_start|>",
        eos_token="<end_of_utterance>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        model_max_length=8192,
        extra_special_tokens={
            "fake_image_token": "<fake_token_around_image>",
            "image_token": "<image>",
            "global_image_token": "<global-img>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
    )
    edge = {"longest_edge": SIDE}
    SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(size=edge, max_image_size=edge),
        tokenizer=tokenizer,
        video_processor=SmolVLMVideoProcessor(
            size=edge, max_image_size=edge, video_sampling={"fps": 1, "max_frames": 1, "video_size": edge}
        ),
        image_seq_len=64,
    ).save_pretrained(directory)
    text = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=960,
        intermediate_size=2560,
        num_hidden_layers=32,
        num_attention_heads=15,
        num_key_value_heads=5,
        head_dim=64,
        max_position_embeddings=8192,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config = SmolVLMConfig(
        text_config=text.to_dict(),
        scale_factor=4,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
        vision_config={
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "image_size": SIDE,
            "patch_size": 16,
        },
    )
    config.architectures = ["SmolVLMForConditionalGeneration"]
    config.save_pretrained(directory)
    return directory
