"""Runs Helm's own engine (PyPI: helm-python-sdk) on the chart, for the tests.

Reads a JSON list of calls, [verb, values] or [verb, values, options], and prints a JSON list of their results; a call that
Helm refuses has the result {"error": TEXT}. The option "hooks" adds the text of the hooks, as "hooks": a release does not
show them. The option "release" names the release, otherwise it is "epguard". An argument names the kubeconfig of the
cluster. Releases are kept in memory: all calls of a release belong into one list.
"""

import json
import pathlib
import sys

import helm_python as helm
from helm_python import _native

NAME = NAMESPACE = "epguard"
HOOKS = "epguard/templates/test-check.yaml"
FOLDER = pathlib.Path(__file__).parent / "chart"
NOWHERE = {"clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}], "current-context": "none",
           "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}]}

chart = helm.Chart.load(FOLDER)
config = helm.Config(
    kubeconfig_path=sys.argv[1] if len(sys.argv) > 1 else None,
    kubeconfig_content=None if len(sys.argv) > 1 else json.dumps(NOWHERE),
    namespace=NAMESPACE,
    storage_driver="memory",
)


def call(verb, values, options={}):
    options = dict(options)
    name = options.pop("release", NAME)
    if options.pop("hooks", False):
        hooks = chart.render(values, name=name, namespace=NAMESPACE)[HOOKS]
        return {**call(verb, values, {**options, "release": name}), "hooks": hooks}
    if verb == "lint":
        return helm.lint(FOLDER, values, strict=True, namespace=NAMESPACE)
    if verb == "rollback":
        return config.rollback(name, **options)
    if verb in ("history", "uninstall"):
        return getattr(config, verb)(name)
    # The Python functions lack some options. The lab's API server knows no server-side apply.
    if verb == "template":
        verb, options = "install", {"dry_run": "client", **options}
    if verb == "install":
        options = {"server_side_apply": False, "create_namespace": True, **options}
    options = json.dumps({"namespace": NAMESPACE, **options})
    none = _native.HANDLE(0)
    release = _native.call_string(
        f"helm_{verb}", config._raw(), none, chart._raw(), None, name, json.dumps(values), options)
    return json.loads(release)


def answer(arguments):
    try:
        return call(*arguments)
    except helm.HelmError as error:
        return {"error": str(error)}


json.dump([answer(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
