import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import type { ExtensionClient } from '../../client/index.ts';
import type { HandleInfo, OutboxEntry } from '../../heat-bridge/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli } from './run-cli.ts';

const info: HandleInfo = {
  alias: 'db-ready',
  id: '1',
  transport: 'HEAT_SIGNAL',
  origin: 'https://heat.example.org:8004',
  isListed: true,
  minions: ['db1', 'db2'],
  members: [],
  stack: 'trove-7',
  registeredAt: 0,
  expiresAt: 1_800_000_000_000,
};
const entry: OutboxEntry = {
  id: 'abc',
  alias: 'db-ready',
  minion: 'db1',
  stack: 'trove-7',
  status: 'FAILURE',
  state: 'dead',
  acceptedAt: 1_700_000_000_000,
  failures: 0,
  reason: 'answered 404: gone\u001b[2J',
};

/** A bridge that answers all alike, and what it was asked. */
function fakeBridge(answer: unknown) {
  const calls: [method: string, parameters: object][] = [];
  const client: ExtensionClient = {
    call: async (method, parameters = {}) => {
      calls.push([method, parameters]);
      // Whatever the command asks for.
      return answer as never;
    },
    stream: () => {
      throw new TypeError('not foreseen');
    },
  };
  return { calls, options: { openExtension: async () => client } };
}

test('a handle is added from a file, and what is in the file is not shown', async (t) => {
  const file = path.join(temporaryDirectory(t), 'signal.json');
  await writeFile(file, '{"alarm_url": "https://heat/secret"}');
  const { calls, options } = fakeBridge(info);
  const { code, stdout, stderr } = await runCli(
    ['bridge', 'handle', 'add', 'db-ready', file, '--minion', 'db1', 'db2', '--stack', 'trove-7'],
    options,
  );
  t.is(code, 0);
  t.is(stderr, '');
  t.snapshot(stdout);
  const registration = {
    alias: 'db-ready',
    minions: ['db1', 'db2'],
    stack: 'trove-7',
    signal: '{"alarm_url": "https://heat/secret"}',
  };
  t.deepEqual(calls, [['handles.add', { registration, replaces: false }]]);
});

test('a handle is read from standard input, and a place that is not listed is said', async (t) => {
  const { calls, options } = fakeBridge({ ...info, isListed: false });
  const { stderr } = await runCli(
    ['bridge', 'handle', 'add', 'a', '-', '--minion', 'db1', '--replace', '--expires', '60'],
    { ...options, input: '{\n}' },
  );
  t.regex(stderr, /list it under saltbridge: bridge: handles: endpoints/);
  const [[, parameters] = ['', {}]] = calls;
  t.like(parameters, { replaces: true, registration: { signal: '{\n}' } });
});

test('handles are listed, and shown as JSON', async (t) => {
  const { options } = fakeBridge([info, { ...info, alias: 'x', isListed: false }]);
  t.snapshot((await runCli(['bridge', 'handle', 'list'], options)).stdout);
  const { stdout } = await runCli(['bridge', 'handle', 'list', '--json'], options);
  t.deepEqual(JSON.parse(stdout)[0], info);
  const one = fakeBridge(info);
  const shown = await runCli(['bridge', 'handle', 'remove', 'db-ready', '--json'], one.options);
  t.deepEqual(JSON.parse(shown.stdout), info);
  t.deepEqual(one.calls, [['handles.remove', { alias: 'db-ready' }]]);
});

test('the outbox is listed, and nothing that a service said steers the terminal', async (t) => {
  const { calls, options } = fakeBridge([entry, { ...entry, state: 'waiting', failures: 3 }]);
  const { stdout } = await runCli(['bridge', 'outbox', 'list', '--dead'], options);
  t.snapshot(stdout);
  t.false(stdout.includes('\u001b'));
  t.deepEqual(calls, [['outbox.list', { isDead: true, limit: 1000 }]]);
});

test('signals are retried and dropped by id, by handle, or all of them', async (t) => {
  const { calls, options } = fakeBridge([entry]);
  await runCli(['bridge', 'outbox', 'retry', 'abc'], options);
  await runCli(['bridge', 'outbox', 'drop', '--handle', 'db-ready'], options);
  await runCli(['bridge', 'outbox', 'drop', '--all'], options);
  t.deepEqual(calls, [
    ['outbox.retry', { id: 'abc' }],
    ['outbox.drop', { alias: 'db-ready' }],
    ['outbox.drop', {}],
  ]);
  t.is((await runCli(['bridge', 'outbox', 'drop'], options)).code, 64);
  t.is((await runCli(['bridge', 'outbox', 'drop', 'abc', '--all'], options)).code, 64);
});
