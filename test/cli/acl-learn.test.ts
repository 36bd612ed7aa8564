/** From what minions asked for to a policy, and back: learn, check, replay. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '../../client/index.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { altered, freshNonce, recorded } from '../helpers/vector-requests.ts';
import { keys } from '../helpers/vectors.ts';
import { configDirectory } from '../master/config/files.ts';
import { type CliOutcome, runCli } from './run-cli.ts';

interface Site {
  readonly directory: string;
  run(...argv: string[]): Promise<CliOutcome>;
}

/** A master whose minion has asked for tags of its own. */
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

test('what learn prints passes check, and replay says what it would change', async (t) => {
  const site = await start(t);
  const learned = await site.run('learn', '--since', '2000-01-01');
  t.is(learned.code, 0, learned.stderr);
  t.regex(
    learned.stdout,
    /^ {6}# 2 times, .*\n {6}"learned: signal my\/tag":\n {8}subject: \{ "minion": \[ "vecminion" \] \}/m,
  );
  t.regex(learned.stdout, /^# no rule can permit it: vecminion signal "salt\/auth"/m);
  const file = path.join(site.directory, 'learned.yaml');
  writeFileSync(file, learned.stdout);
  const checked = await site.run('check', file);
  t.is(checked.code, 0, checked.stdout);
  const replayed = await site.run('replay', file);
  t.is(replayed.code, 1);
  t.regex(replayed.stdout, /^denied: vecminion signal site\/a \(1 times/m);
  t.regex(replayed.stdout, /^allowed: vecminion signal my\/tag \(2 times/m);
  t.regex(replayed.stdout, /3 decisions on 4 requests, 2 otherwise\n$/);
});

test('replay ends with 0 where nothing would be otherwise', async (t) => {
  const site = await start(t);
  const file = path.join(site.directory, 'same.yaml');
  writeFileSync(file, 'saltbridge:\n  acl:\n    signals:\n      - tag: site/*\n');
  const { code, stdout } = await site.run('replay', file);
  t.is(code, 0, stdout);
  t.is(stdout, '3 decisions on 4 requests, 0 otherwise\n');
});

test('check of a file looks at its rules, not at those in force', async (t) => {
  const site = await start(t);
  const file = path.join(site.directory, 'next.yaml');
  const text = (rules: string): void =>
    writeFileSync(file, `saltbridge:\n  acl:\n    rules:\n${rules}`);
  text(`      lab: {subject: {minion: 'lab*'}, action: signal, resource: {tag: lab/x}}\n`);
  const idle = await site.run('check', file);
  t.is(idle.code, 1);
  t.is(idle.stdout, `matches-no-minion: lab (${file}:4): no accepted minion has such an id\n`);
  text(`      bad: {subject: {minion: ${keys.minionId}}, action: sing, resource: {}}\n`);
  const broken = await site.run('check', file);
  t.is(broken.code, 64);
  t.regex(broken.stderr, /next\.yaml:4: /);
  t.is((await site.run('check', path.join(site.directory, 'none.yaml'))).code, 64);
});

test('learn can begin anew', async (t) => {
  const site = await start(t);
  t.regex((await site.run('learn', '--forget')).stdout, /learned: signal/);
  t.regex((await site.run('learn')).stdout, /rules: \{\}/);
});
