"""Answers the cases of the differential campaign with the Salt that this Python imports.

    reference.py DIRECTORY < lines > answers

The first line has what all cases share, each other line one case, in JSON; so has each answer. DIRECTORY is empty and writable. An answer is
{"value": TEXT}, where TEXT has a value in the canonical form of `canonical` below, or
{"error": CLASS}.
"""

import copy
import datetime
import json
import logging
import os
import resource
import shutil
import signal
import struct
import sys

logging.disable(logging.CRITICAL)

import salt.cache
import salt.config
import salt.minion
import salt.pillar
import salt.utils.minions
import salt.utils.templates
import salt.utils.yaml

ROOT = sys.argv[1]
FILES = os.path.join(ROOT, "files")


def canonical(value):
    """One text for each value, which tells types apart and ignores the order of keys."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return "nan" if value != value else "float:" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return json.dumps(str(value))
    if isinstance(value, bytes):
        return "bytes:" + value.hex()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return "date:" + str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "set:[" + ",".join(sorted(canonical(item) for item in value)) + "]"
    if isinstance(value, dict):
        pairs = sorted(canonical(key) + ":" + canonical(inner) for key, inner in value.items())
        return "{" + ",".join(pairs) + "}"
    return "other:" + type(value).__name__


def options(**more):
    opts = salt.config.master_config(None)
    opts.update(
        root_dir=ROOT,
        cachedir=os.path.join(ROOT, "cache"),
        extension_modules=os.path.join(ROOT, "ext"),
        pki_dir=os.path.join(ROOT, "pki"),
        sock_dir=os.path.join(ROOT, "run"),
        file_roots={"base": [FILES]},
        pillar_roots={"base": []},
        fileserver_backend=["roots"],
        fileserver_list_cache_time=0,
        file_client="local",
        id="north_master",
        __role="master",
    )
    opts.update(more)
    return opts


def write_tree(directory, files):
    shutil.rmtree(directory, ignore_errors=True)
    for name, text in files.items():
        place = os.path.join(directory, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8", newline="") as file:
            file.write(text)


def answer_yaml(case):
    return canonical(salt.utils.yaml.safe_load(case["text"]))


template_options = None


def answer_template(case):
    global template_options
    if template_options is None:
        write_tree(FILES, shared["files"])
        template_options = options()
    context = dict(
        opts=template_options,
        saltenv="base",
        salt={},
        # Filters of Salt change their argument.
        grains=copy.deepcopy(shared["grains"]),
        pillar={},
        sls="",
        tplfile="",
    )
    text = salt.utils.templates.render_jinja_tmpl(case["text"], context)
    return canonical(text)


pillar_runs = 0


def answer_pillar(case):
    global pillar_runs
    pillar_runs += 1
    place = os.path.join(ROOT, "pillar-%d" % pillar_runs)
    write_tree(place, case["files"])
    roots = {env: [os.path.join(place, env)] for env in case["roots"]}
    opts = options(pillar_roots=roots, **case["options"])
    opts["grains"] = shared["grains"]
    pillar = salt.pillar.Pillar(
        opts, dict(shared["grains"], id="web1"), "web1", case["saltenv"], pillarenv=case["pillarenv"]
    )
    data = pillar.compile_pillar()
    shutil.rmtree(place, ignore_errors=True)
    errors = data.pop("_errors", None)
    return canonical(data) + (" with errors" if errors else "")


target_options = None


def answer_target(case):
    global target_options
    if target_options is None:
        target_options = options(minion_data_cache=True)
        accepted = os.path.join(ROOT, "pki", "minions")
        os.makedirs(accepted, exist_ok=True)
        cache = salt.cache.factory(target_options)
        for name, facts in shared["minions"].items():
            with open(os.path.join(accepted, name), "w") as file:
                file.write("key")
            if facts is None:
                continue
            cache.store("minions/" + name, "data", facts)
            try:
                cache.store("grains", name, facts["grains"])
                cache.store("pillar", name, facts["pillar"])
            except Exception:
                pass
    opts = dict(target_options, nodegroups=shared["nodegroups"])
    found = salt.utils.minions.CkMinions(opts).check_minions(case["tgt"], case["tgtType"])
    return canonical({"minions": set(found["minions"]), "missing": set(found["missing"])})


master_minion = None


def plain(value):
    """Removes what differs from run to run."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items() if key not in ("start_time", "duration")}
    return value


def answer_orchestration(case):
    global master_minion
    if master_minion is None:
        # As the runner state.orchestrate makes it.
        master_minion = salt.minion.MasterMinion(options(grains=shared["grains"], file_client="local"))
    write_tree(os.path.join(FILES, case["folder"]), case["files"])
    running = master_minion.functions["state.sls"](
        case["folder"] + ".site",
        case["test"],
        None,
        saltenv="base",
        concurrent=True,
        localconfig=None,
    )
    shutil.rmtree(os.path.join(FILES, case["folder"]), ignore_errors=True)
    return canonical(plain(running))


answers = {
    "orchestration": answer_orchestration,
    "yaml": answer_yaml,
    "template": answer_template,
    "pillar": answer_pillar,
    "target": answer_target,
}

class TooExpensive(BaseException):
    pass


def give_up(*_):
    raise TooExpensive


signal.signal(signal.SIGPROF, give_up)
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
output = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
shared = json.loads(sys.stdin.readline())
for line in sys.stdin:
    case = json.loads(line)
    signal.setitimer(signal.ITIMER_PROF, 5)
    try:
        answer = {"value": answers[case["kind"]](case)}
    except BaseException as error:
        answer = {"error": type(error).__name__, "message": str(error)[:300]}
    signal.setitimer(signal.ITIMER_PROF, 0)
    output.write(json.dumps(answer) + "\n")
    output.flush()
