/** Salt's own Python clients with our master: `LocalClient`, `get_event`, `salt` and `salt-run`. */

import { execFile } from 'node:child_process';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectExtension } from '#client';
import { resolveMasterConfig } from '#config';
import type { MasterApi } from '#master';
import { createLocalClient, type LocalClientStatus } from '#salt-api/localclient/index.ts';
import { testWhere } from '../helpers/needs.ts';
import { eventually } from './eventually.ts';
import { MasterHome } from './our-master.ts';
import { masterPrograms, minionPrograms, steps } from './programs.ts';
import { RealMinion } from './real-minion.ts';

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface Site {
  readonly api: MasterApi;
  /** Directory for the option `-c`. */
  readonly files: string;
  readonly ids: readonly string[];
}

const atEnd: (() => unknown)[] = [];
test.after.always(async () => {
  for (const end of atEnd.reverse()) await end();
});

let opened: Promise<Site> | undefined;

/** Returns one master and its minions, which all steps share. */
function site(): Promise<Site> {
  opened ??= openSite();
  return opened;
}

async function openSite(): Promise<Site> {
  const home = (await MasterHome.create()).with({ autoAccept: true });
  atEnd.push(() => home.dispose());
  const master = await home.startHere(null, { extensions: [createLocalClient()] });
  atEnd.push(() => master.close());
  const ids: string[] = [];
  for (const program of minionPrograms.slice(0, 2)) {
    const minion = await RealMinion.create({ ...home.ports, program, name: `c${ids.length}` });
    atEnd.push(() => minion.dispose());
    minion.start();
    ids.push(minion.id);
  }
  const { socket } = resolveMasterConfig(home.options);
  const extension = connectExtension({ socketPath: socket }, 'localclient');
  const { directory } = await extension.call<LocalClientStatus>('enable', { port: 0 });
  await eventually(
    'the minions to answer',
    async () => {
      const answers = [];
      for await (const update of master.api.jobs.run({ tgt: '*', fun: 'test.ping' })) {
        if (update.type === 'return') answers.push(update.minion);
      }
      return answers.length === ids.length;
    },
    120_000,
    1000,
  );
  return { api: master.api, files: directory, ids: ids.sort() };
}

function execute(
  program: string,
  args: readonly string[],
  account: { readonly uid?: number; readonly gid?: number } = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(program, args, { timeout: 120_000, ...account }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

/** Returns a program that is installed with a `salt-master`. */
function beside(master: string, name: string): string {
  return path.join(path.dirname(master), name);
}

/**
 * Returns the command that runs Python in the environment of Salt's programs. It is their
 * interpreter. If a shell script first sets up an environment, it is this script with a changed
 * last command.
 */
function python(program: string): readonly [program: string, ...args: string[]] {
  const lines = readFileSync(program, 'utf8').split('\n');
  const [, interpreter] = /^#!\s*(\S*python\S*)/.exec(lines[0] ?? '') ?? [];
  if (interpreter !== undefined) return [interpreter];
  const exports = lines.filter((line) => line.startsWith('export '));
  const [, found = 'python3'] = /^exec (\S+)/m.exec(lines.join('\n')) ?? [];
  return ['/bin/sh', '-c', [...exports, `exec ${found} "$@"`].join('\n'), 'sh'];
}

/** Script that prints the results of the interfaces in Salt's Python packages as JSON. */
const script = `
import json, sys
import salt.client, salt.runner, salt.utils.event, salt.wheel
client = salt.client.LocalClient(sys.argv[1] + "/master")
listener = salt.utils.event.get_event(
    "master", sock_dir=client.opts["sock_dir"], opts=client.opts, listen=True
)
listener.subscribe("salt/job/")
listener.subscribe("site/")
found = {}
found["cmd"] = client.cmd("*", "test.echo", ["h\\u00fc"])
found["arguments"] = {
    name: [each["args"], each["kwargs"]["k"]]
    for name, each in client.cmd("*", "test.arg", ["a", 1], kwarg={"k": {"deep": [{"er": [1]}]}}).items()
}
found["several"] = client.cmd("*", ["test.ping", "test.echo"], [[], ["x"]])
found["nobody"] = client.cmd("none", "test.ping")
found["iter"] = {k: v["ret"] for each in client.cmd_iter("*", "test.ping") for k, v in each.items()}
found["batch"] = [sorted(each) for each in client.cmd_batch("*", "test.ping", batch="1")]
found["list"] = client.cmd(sys.argv[2:], "test.ping", tgt_type="list")
missing = client.cmd(sys.argv[2:] + ["gone"], "test.ping", tgt_type="list", timeout=2)
found["missing"] = {name: value is True for name, value in missing.items()}
found["slow"] = client.cmd("*", "test.sleep", [4], timeout=2)
found["run_job"] = client.run_job("*", "test.ping")["minions"]
found["jid"] = client.cmd_async("*", "test.echo", ["kept"])
found["returns"] = {}
for each in client.get_cli_returns(found["jid"], sys.argv[2:], timeout=10):
    found["returns"].update({k: v["ret"] for k, v in each.items()})
found["cached"] = {k: v["ret"] for k, v in client.get_cache_returns(found["jid"]).items()}
event = listener.get_event(wait=10, tag="salt/job/%s/ret/" % found["jid"], full=True)
found["event"] = [event["tag"].split("/")[2], event["data"]["return"]]
found["fired"] = listener.fire_event({"a": 1}, "site/event")
found["heard"] = listener.get_event(wait=10, tag="site/event")["a"]
def refused(call):
    try:
        return call()
    except Exception as error:
        return str(error)
wheel, runner = salt.wheel.WheelClient(client.opts), salt.runner.RunnerClient(client.opts)
found["refused"] = [
    refused(lambda: wheel.cmd("key.list_all")),
    refused(lambda: wheel.cmd("key.accept", [sys.argv[2]])),
    refused(lambda: wheel.cmd("config.values")),
    refused(lambda: runner.cmd("cache.grains", ["*"])),
    refused(lambda: runner.cmd("pillar.show_pillar", [sys.argv[2]])),
]
print("FOUND " + json.dumps(found))
`;

async function ask(master: string, { files, ids }: Site): Promise<Record<string, unknown>> {
  const [program, ...args] = python(beside(master, 'salt'));
  const { stdout, stderr } = await execute(program, [...args, '-c', script, files, ...ids]);
  const [, found] = /^FOUND (.*)$/m.exec(stdout) ?? [];
  if (found === undefined) throw new Error(`no result:\n${stdout}\n${stderr}`);
  return JSON.parse(found);
}

function each<T>(ids: readonly string[], value: T): Record<string, T> {
  return Object.fromEntries(ids.map((id) => [id, value]));
}

async function checkInterfaces(t: ExecutionContext, master: string): Promise<void> {
  const { api, files, ids } = await site();
  const { jid, ...found } = await ask(master, { api, files, ids });
  t.deepEqual(found, {
    cmd: each(ids, 'hü'),
    arguments: each(ids, [['a', 1], { deep: [{ er: [1] }] }]),
    several: each(ids, { 'test.ping': true, 'test.echo': 'x' }),
    nobody: {},
    iter: each(ids, true),
    batch: found.batch,
    list: each(ids, true),
    missing: { ...each(ids, true), gone: false },
    slow: each(ids, true),
    run_job: ids,
    returns: each(ids, 'kept'),
    cached: each(ids, 'kept'),
    event: [jid, 'kept'],
    fired: true,
    heard: 1,
    refused: [
      "'key.list_all'",
      "'key.accept'",
      "'config.values'",
      "'cache.grains'",
      "'pillar.show_pillar'",
    ],
  });
  t.deepEqual(Object(found.batch).flat().sort(), ids);
  const { user, deliveries } = await api.jobs.show(String(jid));
  t.is(deliveries.length, ids.length);
  t.not(user, 'saltbridge');
}

async function checkPrograms(t: ExecutionContext, master: string): Promise<void> {
  const { api, files, ids } = await site();
  const run = (name: string, ...args: string[]): Promise<Outcome> =>
    execute(beside(master, name), ['-c', files, ...args]);
  const ping = await run('salt', '--static', '--out=json', '*', 'test.ping');
  t.deepEqual([ping.code, JSON.parse(ping.stdout)], [0, each(ids, true)]);
  const failed = await run('salt', '--out=txt', ids[0] ?? '', 'cmd.run', 'exit 3', 'shell=/bin/sh');
  t.is(failed.code, 1);
  const batch = await run('salt', '-b', '1', '--out=txt', '*', 'test.ping');
  for (const id of ids) t.true(batch.stdout.includes(`${id}: True`), batch.stdout);
  const none = await run('salt', 'none', 'test.ping');
  t.true(none.stdout.includes('No minions matched the target'), none.stdout);
  const { jid } = await api.jobs.publish({ tgt: '*', fun: 'test.echo', arg: ['old'] });
  const lookUp = (): Promise<Outcome> => run('salt-run', '--out=json', 'jobs.lookup_jid', jid);
  await eventually(
    'the job to be kept whole',
    async () => Object.keys(JSON.parse((await lookUp()).stdout)).length === ids.length,
    30_000,
    500,
  );
  t.deepEqual(JSON.parse((await lookUp()).stdout), each(ids, 'old'));
  const listed = await run('salt-run', '--out=json', 'jobs.list_jobs');
  t.true(Object.keys(JSON.parse(listed.stdout)).includes(jid));
  const up = await run('salt-run', '--out=json', 'manage.up');
  t.deepEqual([...JSON.parse(up.stdout)].sort(), ids);
  const atMaster = ['-c', path.join(files, 'salt-run'), '--out=json'];
  const runner = await execute(beside(master, 'salt-run'), [...atMaster, 'test.arg', 'a', 'b=1']);
  t.deepEqual(JSON.parse(runner.stdout), { args: ['a'], kwargs: { b: 1 } });
  const grains = await execute(beside(master, 'salt-run'), [...atMaster, 'cache.grains', '*']);
  t.deepEqual(Object.keys(JSON.parse(grains.stdout)).sort(), ids);
}

/** Script that prints the error for a client that can read neither the key nor events. */
const unprivileged = `
import sys
import salt.client
client = salt.client.LocalClient(sys.argv[1] + "/master")
try:
    print(client.run_job("*", "test.ping", listen=False))
except Exception as exc:
    print(type(exc).__name__)
`;

/** Checks an account that can read the configuration, but has no key. */
async function checkOtherAccount(t: ExecutionContext, master: string): Promise<void> {
  const { api, files } = await site();
  const copy = mkdtempSync(path.join(tmpdir(), 'other-'));
  t.teardown(() => rmSync(copy, { recursive: true, force: true }));
  cpSync(path.join(files, 'master'), path.join(copy, 'master'));
  // The client of this account can write here, but cannot read the key or events.
  const text = readFileSync(path.join(copy, 'master'), 'utf8');
  const log = `log_file: ${copy}/log\nkey_logfile: ${copy}/log\nlog_level_logfile: quiet\n`;
  writeFileSync(path.join(copy, 'master'), `${text.replaceAll(/^.*log_?file:.*\n/gm, '')}${log}`);
  await execute('/bin/chown', ['-R', '65534:65534', copy]);
  const before = await api.jobs.list();
  const args = ['-c', copy, '--out=txt', '*', 'test.ping'];
  const account = { uid: 65_534, gid: 65_534 };
  const { stdout, stderr } = await execute(beside(master, 'salt'), args, account);
  t.false(stdout.includes('True'), stdout);
  t.regex(`${stdout}${stderr}`, /could not be contacted/);
  t.teardown(() => chmodSync(files, 0o700));
  // The directories are opened for others here, so that the mode of the key itself is tested.
  for (let at = path.join(files, 'run'); at !== tmpdir(); at = path.dirname(at))
    chmodSync(at, 0o755);
  const [program, ...first] = python(beside(master, 'salt'));
  const tried = await execute(program, [...first, '-c', unprivileged, copy], account);
  t.is(tried.stdout.trim(), 'AuthenticationError', tried.stderr);
  t.deepEqual(await api.jobs.list(), before);
}

const masters = masterPrograms.length > 0 ? masterPrograms : [''];

for (const [index, master] of masters.entries()) {
  const salt = `Salt number ${index + 1}`;
  const step = steps('SALT_MINION', 'SALT_MASTER');
  step(`LocalClient and get_event of ${salt} work beside our master`, (t) =>
    checkInterfaces(t, master),
  );
  step(`salt and salt-run of ${salt} work beside our master`, (t) => checkPrograms(t, master));
  const isRoot = process.getuid?.() === 0;
  const title = `another account is refused by what ${salt} needs`;
  testWhere(isRoot, 'root', step)(title, (t) => checkOtherAccount(t, master));
}
