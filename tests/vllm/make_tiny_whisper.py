"""Make a tiny Whisper of random weights, without a network: ``make_tiny_whisper.py FOLDER``.

It hears nothing in particular. Special tokens have no weight in it, so that what it answers is text, and its answers
end where their longest length is.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from make_tiny_model import TEXT, tokenizers, torch, transformers  # type: ignore[import-not-found]  # beside this script

LONGEST = 448
BINS = 80
SIZE = {"layers": 1, "attention_heads": 2, "ffn_dim": 64}
END, START = "<|endoftext|>", "<|startoftranscript|>"
TASKS = ["translate", "transcribe", "startoflm", "prev", "startofprev", "nospeech", "notimestamps"]


def make_tokenizer(folder: Path, special: list[str]) -> Any:  # noqa: ANN401  (a class of transformers)
    """Train a byte-level BPE and save it as Whisper's, with the features of sound that go with it."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=591, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT.strip().splitlines(), trainer)
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, special=True) for token in special])
    ends = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), END)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LONGEST, **ends)
    fast.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=BINS).save_pretrained(folder)
    for name in ("tokenizer_config.json", "preprocessor_config.json"):
        file = folder / name
        stated = json.loads(file.read_text()) | {"processor_class": "WhisperProcessor"}
        if "tokenizer" in name:
            stated["tokenizer_class"] = "WhisperTokenizer"
        file.write_text(json.dumps(stated))
    return fast


def make_model(folder: Path, tokenizer: Any, special: list[str]) -> None:  # noqa: ANN401  (a class of transformers)
    """Save a model of one layer on each side with weights from a fixed seed."""
    torch.manual_seed(0)
    end, start = tokenizer.convert_tokens_to_ids([END, START])
    size = {f"{side}_{what}": number for side in ("encoder", "decoder") for what, number in SIZE.items()}
    ids = {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": end}
    config = transformers.WhisperConfig(
        vocab_size=len(tokenizer),
        num_mel_bins=BINS,
        d_model=64,
        max_target_positions=LONGEST,
        bos_token_id=end,
        begin_suppress_tokens=[],
        dtype="float32",
        **size,
        **ids,
    )
    model = transformers.WhisperForConditionalGeneration(config).float()
    model.get_input_embeddings().weight.data[tokenizer.convert_tokens_to_ids(special)] = 0
    model.generation_config = transformers.GenerationConfig(**ids)
    model.save_pretrained(folder, safe_serialization=True)


def main() -> None:
    """Make both."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    languages = importlib.import_module("transformers.models.whisper.tokenization_whisper").LANGUAGES
    special = [END, START, *(f"<|{one}|>" for one in (*languages, *TASKS))]
    make_model(folder, make_tokenizer(folder, special), special)


if __name__ == "__main__":
    main()
