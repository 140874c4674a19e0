"""Moving over from LiteLLM: ``vllm-gateway import litellm CONFIG.yaml``.

Enters: a configuration that was read, and the environment that its ``os.environ/NAME`` point into. Leaves:
``Imported``: models for a policy, engines for the settings, limits, and one problem for everything that could not be
carried over. Several entries of one name are replicas. The value of a key is never read, and never written: a key that
stands in the file itself is an error that says where to move it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from gateway.addresses import EngineAddress, engine_address
from gateway.policy.forms import Alias, LiteralText
from gateway.policy.model import Model
from gateway.review.imported import Imported, ImportedEngine
from gateway.review.litellm_file import REFERENCE, LiteLlmFile, NotImportable
from gateway.review.litellm_losses import losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gateway.policy.source import Path, Problem

UNBOUNDED: Final = 4096
"""The longest answer of a model for which LiteLLM has no bound: here every generating model has one."""

# Provider → the variables that stand in for an absent api_base and api_key.
_PROVIDERS: Final[Mapping[str, tuple[str, str]]] = {
    "openai": ("OPENAI_API_BASE", "OPENAI_API_KEY"),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE", "HOSTED_VLLM_API_KEY"),
}
_GENERATES: Final[Mapping[object, bool]] = {
    None: True, "chat": True, "completion": True, "responses": True, "embedding": False, "rerank": False,
}  # fmt: skip
# LiteLLM counts these for a deployment, the policy for a client.
_LIMITS: Final = {
    "rpm": "requests_per_minute",
    "max_parallel_requests": "concurrent_requests",
    "tpm": "tokens_per_minute",
}
# What people write where LiteLLM insists on a key and the engine has none.
_NO_KEY: Final = frozenset({"", "empty", "none"})
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS: Final = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class _Deployment:
    """One entry: a model on one engine. ``key``: the variable with the engine's key."""

    path: Path
    model: Model
    address: EngineAddress
    key: str | None


def translate(file: LiteLlmFile, environ: Mapping[str, str]) -> Imported:
    """Carry over what has a counterpart. Raises ``NotImportable`` with everything that must be mended first."""
    return _Translation(file, environ).result()


class _Translation:
    """One file on its way: what was read so far, what is wrong, what is lost, and which paths were carried over."""

    def __init__(self, file: LiteLlmFile, environ: Mapping[str, str]) -> None:
        self._file = file
        self._environ = environ
        self._wrong: list[Problem] = []
        self._lost: list[Problem] = []
        self._carried: set[Path] = set()
        self._limits: dict[str, dict[str, int]] = defaultdict(dict)

    def result(self) -> Imported:
        """Translate the whole file. Raises ``NotImportable``."""
        entries = self._file.data.get("model_list")
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise NotImportable([self._file.problem(("model_list",), "write a list of models, each a mapping")])
        read = [self._deployment(("model_list", index), entry) for index, entry in enumerate(entries)]
        models, engines = self._grouped([deployment for deployment in read if deployment is not None])
        models.update(self._second_names(models))
        lost = [*self._lost, *losses(self._file, self._carried)]
        if self._wrong:
            raise NotImportable(self._wrong)
        return Imported(models, engines, self._limits, tuple(sorted(set(lost))))

    # One entry

    def _deployment(self, path: Path, entry: Mapping[str, Any]) -> _Deployment | None:
        """Read one entry; ``None`` for one that is wrong or has no counterpart, which is noted."""
        alias, params = entry.get("model_name"), entry.get("litellm_params")
        if not isinstance(alias, str) or not isinstance(params, dict) or not isinstance(params.get("model"), str):
            self._wrong.append(self._file.problem(path, "an entry needs model_name and litellm_params.model"))
            return None
        here = (*path, "litellm_params")
        provider, slash, served_as = params["model"].partition("/")
        if isinstance(named := params.get("custom_llm_provider"), str):
            provider, served_as = named, params["model"].removeprefix(f"{named}/")
        elif not slash:
            provider, served_as = "openai", provider
        if provider not in _PROVIDERS:
            self._give_up(path, here, "only openai/… and hosted_vllm/… can be an engine of this gateway")
            return None
        url, key = _PROVIDERS[provider]
        address = self._address((*here, "api_base"), params.get("api_base") or self._environ.get(url))
        variable = self._key((*here, "api_key"), params.get("api_key"), key)
        info = entry.get("model_info")
        if address is None:
            return None
        model = self._model(path, alias, served_as, params, info if isinstance(info, dict) else {})
        if model is None:
            return None
        self._note_limits(here, alias, params)
        names = ("model", "api_base", "api_key", "custom_llm_provider")
        self._carried |= {(*path, "model_name"), *((*here, name) for name in names)}
        return _Deployment(path, model, address, variable)

    def _give_up(self, path: Path, where: Path, sentence: str) -> None:
        """Note that an entry is left out, once, in place of each of its keys."""
        self._lost.append(self._file.problem(where, f"not carried over: {sentence}"))
        self._carried |= {known for known in self._file.places if known[: len(path)] == path}

    def _address(self, path: Path, text: object) -> EngineAddress | None:
        if text is None:
            self._give_up(path[:2], path[:3], "without api_base it is the provider's own service, and no engine")
            return None
        text = self._resolved(path, text)
        if text is None:
            return None
        try:
            return engine_address(re.sub(r"(?<=[^/])/v1/?$", "", str(text)))
        except ValueError as error:
            self._wrong.append(self._file.problem(path, f"an engine's address {error}"))
            return None

    def _key(self, path: Path, value: object, default: str) -> str | None:
        """Give the variable that holds the engine's key, never its value."""
        if value is None:
            return default if default in self._environ else None
        text = str(value)
        if text.strip().lower() in _NO_KEY:
            return None
        name = text.removeprefix(REFERENCE)
        hard_coded = not text.startswith(REFERENCE) or _VARIABLE.fullmatch(name) is None
        place = path
        if not hard_coded and self._file.section("environment_variables").get(name) is not None:
            hard_coded, place = True, ("environment_variables", name)
        if not hard_coded:
            return name
        self._wrong.append(
            self._file.problem(
                place,
                "the key itself stands in the file: put it into the environment under a name of yours, such as "
                f"ENGINE_KEY, write `api_key: {REFERENCE}ENGINE_KEY` here, and change a key that was ever committed",
            )
        )
        return None

    def _model(
        self, path: Path, alias: str, served_as: str, params: Mapping[str, Any], info: Mapping[str, Any]
    ) -> Model | None:
        for form, text, key in ((Alias, alias, "model_name"), (LiteralText, served_as, "litellm_params")):
            try:
                TypeAdapter[str](form).validate_python(text)
            except ValidationError as error:
                self._give_up(path, (*path, key), error.errors()[0]["msg"])
                return None
        generates = _GENERATES.get(info.get("mode"))
        if generates is None:
            self._give_up(path, (*path, "model_info", "mode"), "no endpoint of this gateway is of this mode")
            return None
        self._carried.add((*path, "model_info", "mode"))
        if not generates:
            return Model(alias, "", served_as)
        for place in (("model_info", "max_output_tokens"), ("litellm_params", "max_tokens")):
            value = (info if place[0] == "model_info" else params).get(place[1])
            if value is not None:
                self._carried.add((*path, *place))
                return Model(alias, "", served_as, most_tokens=self._number((*path, *place), value))
        sentence = f"no bound is stated, so most_tokens became {UNBOUNDED}: write the longest answer that you permit"
        self._lost.append(self._file.problem(path, sentence))
        return Model(alias, "", served_as, most_tokens=UNBOUNDED)

    def _note_limits(self, here: Path, alias: str, params: Mapping[str, Any]) -> None:
        """Add up what LiteLLM permits on all deployments of one name."""
        for name, key in _LIMITS.items():
            if params.get(name) is not None:
                self._carried.add((*here, name))
                number = self._number((*here, name), params[name])
                self._limits[alias][key] = self._limits[alias].get(key, 0) + (number or 0)

    def _resolved(self, path: Path, value: object) -> object | None:
        """Follow ``os.environ/NAME``; what it leads to is no secret here, and checked like what stands in the file."""
        if not isinstance(value, str) or not value.startswith(REFERENCE):
            return value
        name = value.removeprefix(REFERENCE)
        found = self._environ.get(name)
        if not found:
            known = f"the variable {name}" if _VARIABLE.fullmatch(name) else "the variable"
            self._wrong.append(self._file.problem(path, f"{known} is not set: set it for the import as for LiteLLM"))
            return None
        return found

    def _number(self, path: Path, value: object) -> int | None:
        value = self._resolved(path, value)
        if value is None:
            return None
        if isinstance(value, bool) or _DIGITS.fullmatch(str(value)) is None:
            self._wrong.append(self._file.problem(path, "this must be a whole number from 1 up, in digits"))
            return None
        return int(str(value))

    # All entries together

    def _grouped(self, deployments: list[_Deployment]) -> tuple[dict[str, Model], dict[str, ImportedEngine]]:
        """Make replicas of the entries of one name, and one engine of the names that have the same replicas."""
        models: dict[str, Model] = {}
        engines: dict[str, ImportedEngine] = {}
        by_alias: dict[str, list[_Deployment]] = defaultdict(list)
        for deployment in deployments:
            by_alias[deployment.model.alias].append(deployment)
        for alias, entries in by_alias.items():
            first = entries[0]
            alike = [entry for entry in entries if (entry.model, entry.key) == (first.model, first.key)]
            self._lost += [
                self._file.problem(
                    entry.path,
                    "not carried over: replicas of one alias serve one name, with one key and one bound, and the first "
                    f"entry of {alias} says otherwise; give this one an alias of its own",
                )
                for entry in entries
                if entry not in alike
            ]
            engine = ImportedEngine(tuple(dict.fromkeys(entry.address for entry in alike)), first.key)
            name = next((known for known, other in engines.items() if other == engine), None) or _name(alias, engines)
            engines[name] = engine
            models[alias] = replace(first.model, engine=name)
        return models, engines

    def _second_names(self, models: Mapping[str, Model]) -> Iterator[tuple[str, Model]]:
        """Give the models of ``router_settings.model_group_alias``: further names of what is there."""
        names = self._file.section("router_settings").get("model_group_alias")
        for alias, target in names.items() if isinstance(names, dict) else ():
            model = models.get(str(target.get("model") if isinstance(target, dict) else target))
            if model is None:
                path: Path = ("router_settings", "model_group_alias", alias)
                self._lost.append(self._file.problem(path, "not carried over: the model that it means was not"))
            else:
                self._carried.add(("router_settings", "model_group_alias"))
                yield str(alias), replace(model, alias=str(alias))


def _name(alias: str, taken: Mapping[str, object]) -> str:
    """Name an engine after an alias, as policies and settings can both spell it."""
    stem = re.sub(r"[^a-z0-9]+", "-", alias.lower()).strip("-")
    stem = stem if re.match("[a-z]", stem) else f"engine-{stem}".strip("-")
    names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
