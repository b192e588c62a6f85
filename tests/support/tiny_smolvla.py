"""A SmolVLA with a tiny, randomly initialised backbone, made without any hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lerobot.policies.factory import make_pre_post_processors
from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
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

from lerobot_checkpoints import ACTION_FEATURES, features

_SIDE = 64


def save_smolvla(directory: Path, **changes: Any) -> Path:
    """Build it, and save it with a backbone beside it."""
    backbone = save_backbone(directory.parent / "backbone")
    torch.manual_seed(0)
    config = SmolVLAConfig(
        **{
            "input_features": features(),
            "output_features": ACTION_FEATURES,
            "device": "cpu",
            "push_to_hub": False,
            "vlm_model_name": str(backbone),
            "load_vlm_weights": False,
            "num_vlm_layers": 2,
            "resize_imgs_with_padding": (_SIDE, _SIDE),
            "chunk_size": 10,
            "n_action_steps": 10,
            "num_steps": 4,
            "tokenizer_max_length": 128,
            **changes,
        }
    )
    policy = SmolVLAPolicy(config)
    statistics = {
        "observation.state": {"mean": torch.zeros(4), "std": torch.ones(4)},
        "action": {"mean": torch.zeros(4), "std": torch.full((4,), 0.5)},
    }
    for part in (policy, *make_pre_post_processors(config, dataset_stats=statistics)):
        part.save_pretrained(directory)
    return directory


def save_backbone(directory: Path, *, weights: bool = False) -> Path:
    """Save a backbone's config and processor, with random weights if they are wanted."""
    # 256 base symbols: any prompt can be encoded, no merges, no training.
    vocabulary = {symbol: place for place, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bytes_tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_tokenizer.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bytes_tokenizer,
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
    edge = {"longest_edge": _SIDE}
    processor = SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(size=edge, max_image_size=edge),
        tokenizer=tokenizer,
        video_processor=SmolVLMVideoProcessor(
            size=edge,
            max_image_size=edge,
            video_sampling={"fps": 1, "max_frames": 1, "video_size": edge},
        ),
        image_seq_len=4,
    )
    processor.save_pretrained(directory)
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=8192,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config = SmolVLMConfig(
        text_config=text.to_dict(),
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": _SIDE,
            "patch_size": 16,
        },
    )
    config.architectures = ["SmolVLMForConditionalGeneration"]
    config.save_pretrained(directory)
    if weights:
        SmolVLMForConditionalGeneration(config).save_pretrained(directory)
    return directory
