"""A backbone for SmolVLA with a made-up tokenizer, without the hub: of the real size (SmolVLM2-500M), or less."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

PATCH = 16
"""Pixels on a side."""


@dataclass(frozen=True)
class Part:
    """What a transformer's size is made of: the language model's, or the one that sees."""

    width: int
    inner: int
    layers: int
    heads: int
    key_value_heads: int = 0


@dataclass(frozen=True)
class Sizes:
    """A backbone's: of its parts, its pictures' side, and how many patches on a side become one token."""

    text: Part
    vision: Part
    side: int
    scale: int
    vocabulary: int | None = None


REAL = Sizes(Part(960, 2560, 32, 15, 5), Part(768, 3072, 12, 12), side=512, scale=4, vocabulary=49280)


def save_backbone(directory: Path, sizes: Sizes = REAL, *, weights: bool = False) -> Path:
    """Save its config and processor, with random weights if they are wanted; SmolVLA draws its own."""
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
    edge = {"longest_edge": sizes.side}
    SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(size=edge, max_image_size=edge),
        tokenizer=tokenizer,
        video_processor=SmolVLMVideoProcessor(
            size=edge, max_image_size=edge, video_sampling={"fps": 1, "max_frames": 1, "video_size": edge}
        ),
        image_seq_len=(sizes.side // PATCH // sizes.scale) ** 2,
    ).save_pretrained(directory)
    text, vision = sizes.text, sizes.vision
    language = LlamaConfig(
        vocab_size=sizes.vocabulary or len(tokenizer),
        hidden_size=text.width,
        intermediate_size=text.inner,
        num_hidden_layers=text.layers,
        num_attention_heads=text.heads,
        num_key_value_heads=text.key_value_heads,
        head_dim=text.width // text.heads,
        max_position_embeddings=8192,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config = SmolVLMConfig(
        text_config=language.to_dict(),
        scale_factor=sizes.scale,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
        vision_config={
            "hidden_size": vision.width,
            "intermediate_size": vision.inner,
            "num_hidden_layers": vision.layers,
            "num_attention_heads": vision.heads,
            "image_size": sizes.side,
            "patch_size": PATCH,
        },
    )
    config.architectures = ["SmolVLMForConditionalGeneration"]
    config.save_pretrained(directory)
    if weights:
        SmolVLMForConditionalGeneration(config).save_pretrained(directory)
    return directory
