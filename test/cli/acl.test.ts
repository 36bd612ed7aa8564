import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import { type MasterConfig, resolveMasterConfig } from '#config';
import type { ExplainRequest } from '#master';
import { directories, startVectorMaster } from '../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { keys } from '../helpers/vectors.ts';
import { configDirectory } from '../master/config/files.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

test('explain names the rule that decides and its place, and exits with 1 for a denial', async (t) => {
  const seen: ExplainRequest[] = [];
  const openApi = async () => {
    const signals = [{ tag: 'my/*', minions: '*', name: 'mine', schema: { type: 'object' } }];
    const { master } = await startVectorMaster(t, { config: { acl: { signals } } });
    const { explain } = master.acl;
    return {
      ...master,
      acl: {
        ...master.acl,
        explain: async (request: ExplainRequest) => {
          seen.push(request);
          return explain(request);
        },
      },
    };
  };
  const ask = ['acl', 'explain', keys.minionId, 'signal', 'my/tag', '--data'];
  const allowed = await runCli([...ask, '{"a":1}'], { openApi });
  t.is(allowed.code, 0, allowed.stderr);
  t.is(allowed.stdout, 'allow: mine: minion * is allowed signal my/*\n');
  const denied = await runCli([...ask, '[]'], { openApi });
  t.is(denied.code, 1);
  t.regex(
    denied.stdout,
    /^deny: default-deny: .*\n {2}nearest: mine: the data of the event does not match/,
  );
  t.deepEqual(seen[0], {
    subject: { kind: 'minion', id: keys.minionId },
    action: 'signal',
    resource: 'my/tag',
    data: { a: 1 },
  });
});

test('explain supports arguments, targets and all kinds of subjects', async (t) => {
  const peer = { 'mini.*': [{ '*': [{ 'test.echo': [{ args: ['a'], kwargs: { b: '1' } }] }] }] };
  const openApi = async () => (await startVectorMaster(t, { config: { peer } })).master;
  const ask = ['acl', 'explain', 'minion-1', 'publish', 'test.echo', '--target', '*', '--arg'];
  t.is((await runCli([...ask, 'a', 'b=1'], { openApi })).code, 0);
  t.is((await runCli([...ask, 'a', 'b=2'], { openApi })).code, 1);
  const user = ['acl', 'explain', 'user:minion-1', ...ask.slice(3), 'a', 'b=1'];
  t.is((await runCli(user, { openApi })).code, 1);
});

for (const [what, argv] of [
  ['an action that is none', ['web1', 'sing', 'x']],
  ['data that are no JSON', ['web1', 'signal', 'x', '--data', '{']],
  ['a size that is not a number', ['web1', 'signal', 'x', '--bytes', 'many']],
] as const) {
  test(`explain refuses ${what}`, async (t) => {
    t.is((await runCli(['acl', 'explain', ...argv])).code, 64);
  });
}

test('check names rules without an effect, without a running master', async (t) => {
  const rule = (tag: string): string =>
    `{subject: {minion: 'lab*'}, action: signal, resource: {tag: ${tag}}}`;
  const directory = configDirectory(t, {
    master: `saltbridge:\n  acl:\n    rules:\n      lab: ${rule('my/x')}\n      key: ${rule('salt/key')}\n`,
  });
  const list = async (): Promise<never[]> => [];
  const { code, stdout } = await runCli(['acl', 'check', '-c', directory], {
    master: { keys: { list } },
  });
  t.is(code, 1);
  const file = path.join(directory, 'master');
  t.deepEqual(stdout.split('\n'), [
    `matches-no-minion: lab (${file}:4): no accepted minion has a matching id`,
    `matches-no-minion: key (${file}:5): no accepted minion has a matching id`,
    `unreachable: key (${file}:5): rules cannot allow tags that are reserved for the master`,
    '',
  ]);
});

test('check names the place of an invalid rule', async (t) => {
  const directory = configDirectory(t, {
    master: 'saltbridge:\n  acl:\n    rules:\n      bad: {action: signal}\n',
  });
  const { code, stderr } = await runCli(['acl', 'check', '-c', directory]);
  t.is(code, 78);
  t.regex(stderr, /master:4: saltbridge:acl:rules:bad: subject and resource must be set/);
});

test('reload prints the current rules, and reports after an error that nothing changed', async (t) => {
  let readConfig = async (): Promise<MasterConfig> => resolveMasterConfig();
  const { master, directory } = await startVectorMaster(t, { readConfig: () => readConfig() });
  const openApi = async () => master;
  const own = directories(directory);
  const signals = [{ tag: 'my/*', minions: '*' }];
  readConfig = async () => resolveMasterConfig({ ...own, timeout: 9, acl: { signals } });
  const { code, stdout } = await runCli(['acl', 'reload'], { openApi });
  t.is(code, 0);
  t.regex(stdout, /^in force now: timeout, saltbridge:acl:signals\nafter a restart: /);
  readConfig = async () => resolveMasterConfig({ ...own, acl: { signals: 'x' as never } });
  t.is((await runCli(['acl', 'reload'], { openApi })).code, 78);
  const ask = ['acl', 'explain', keys.minionId, 'signal', 'my/tag'];
  t.is((await runCli(ask, { openApi })).code, 0);
  const { master: other } = await startVectorMaster(t);
  await t.throwsAsync(other.acl.reload(), { code: 'ERR_NOT_RELOADABLE' });
});

// From requested signals to a policy, and back: `learn`, `check` and `replay`.

interface Site {
  readonly directory: string;
  run(...argv: string[]): Promise<CliOutcome>;
}

/** Starts a master whose minion has requested tags without a rule. */
async function start(t: ExecutionContext): Promise<Site> {
  const directory = configDirectory(t, {
    master: 'saltbridge:\n  acl:\n    signals: [{tag: site/*}]\n',
  });
  const signals = [{ tag: 'site/*', minions: '*' }];
  const {
    master,
    ask,
    directory: own,
  } = await startVectorMaster(t, { config: { acl: { signals } } });
  const event = recorded('minion_event', 'start event v3');
  for (const tag of ['site/a', 'my/tag', 'my/tag', 'salt/auth']) {
    await ask(altered(event, { load: { tag, data: { data: { n: 1 } }, nonce: freshNonce() } }));
  }
  const openApi = async () => connectMaster({ socketPath: path.join(own, 'run', 'master.sock') });
  const openKeys = async () => ({ keys: master.keys, close: async () => {} });
  return {
    directory,
    run: (...argv) => runCli(['acl', ...argv, '-c', directory], { openApi, openKeys }),
  };
}

test('the output of acl learn passes acl check, and acl replay lists its changes', async (t) => {
  const site = await start(t);
  const learned = await site.run('learn', '--since', '2000-01-01');
  t.is(learned.code, 0, learned.stderr);
  t.regex(
    learned.stdout,
    /^ {6}# 2 times, .*\n {6}"learned: signal my\/tag":\n {8}subject: \{ "minion": \[ "vecminion" \] \}/m,
  );
  t.regex(learned.stdout, /^# no rule can permit this request: vecminion signal "salt\/auth"/m);
  const file = path.join(site.directory, 'learned.yaml');
  writeFileSync(file, learned.stdout);
  const checked = await site.run('check', file);
  t.is(checked.code, 0, checked.stdout);
  const replayed = await site.run('replay', file);
  t.is(replayed.code, 1);
  t.regex(replayed.stdout, /^denied: vecminion signal site\/a \(1 times/m);
  t.regex(replayed.stdout, /^allowed: vecminion signal my\/tag \(2 times/m);
  t.regex(replayed.stdout, /3 recorded decisions on 4 requests; 2 would change\n$/);
});

test('replay exits with 0 if no decision would change', async (t) => {
  const site = await start(t);
  const file = path.join(site.directory, 'same.yaml');
  writeFileSync(file, 'saltbridge:\n  acl:\n    signals:\n      - tag: site/*\n');
  const { code, stdout } = await site.run('replay', file);
  t.is(code, 0, stdout);
  t.is(stdout, '3 recorded decisions on 4 requests; 0 would change\n');
});

test('check of a file reads its rules, not the current ones', async (t) => {
  const site = await start(t);
  const file = path.join(site.directory, 'next.yaml');
  const text = (rules: string): void =>
    writeFileSync(file, `saltbridge:\n  acl:\n    rules:\n${rules}`);
  text(`      lab: {subject: {minion: 'lab*'}, action: signal, resource: {tag: lab/x}}\n`);
  const idle = await site.run('check', file);
  t.is(idle.code, 1);
  t.is(idle.stdout, `matches-no-minion: lab (${file}:4): no accepted minion has a matching id\n`);
  text(`      bad: {subject: {minion: ${keys.minionId}}, action: sing, resource: {}}\n`);
  const broken = await site.run('check', file);
  t.is(broken.code, 78);
  t.regex(broken.stderr, /next\.yaml:4: /);
  t.is((await site.run('check', path.join(site.directory, 'none.yaml'))).code, 78);
});

test('learn --forget deletes the recorded denials afterwards', async (t) => {
  const site = await start(t);
  t.regex((await site.run('learn', '--forget')).stdout, /learned: signal/);
  t.regex((await site.run('learn')).stdout, /rules: \{\}/);
});
