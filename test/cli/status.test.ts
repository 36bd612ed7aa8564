import test from 'ava';
import type { Denial, MasterStatus } from '../../master/index.ts';
import { runCli } from './run-cli.ts';

const status: MasterStatus = {
  id: 'salt_master',
  version: '0.1.0',
  pid: 4711,
  startedAt: Date.UTC(2024, 0, 2, 3, 4, 5),
  requestPort: 4506,
  publishPort: 4505,
  transports: [
    { transport: 'zeromq', requestPort: 4506, publishPort: 4505, subscribers: 2 },
    { transport: 'tcp', requestPort: 4516, publishPort: 4515, subscribers: 0 },
  ],
  subscribers: 2,
  aclMode: 'enforce',
  auditFull: false,
  storeFull: false,
  keys: { accepted: 2, denied: 0, pending: 1, rejected: 0 },
  counters: { bad_load: 3, 'auth\x1b': 1 },
};

const denial: Denial = {
  minion: 'm\x1b1',
  tag: 'evil\n\x1b[2J',
  rule: 'default',
  reason: 'no rule permits it',
  count: 3,
  firstAt: 0,
  lastAt: Date.UTC(2024, 0, 2),
};

test('status is shown for people', async (t) => {
  const { stdout } = await runCli(['status'], { master: { status: async () => status } });
  t.snapshot(stdout);
});

test('status --json is what the master said', async (t) => {
  const outcome = await runCli(['status', '--json'], { master: { status: async () => status } });
  t.deepEqual(JSON.parse(outcome.stdout), status);
});

test('acl denials shows each on a line of its own', async (t) => {
  const events = { denials: async () => [denial] };
  const { stdout } = await runCli(['acl', 'denials'], { master: { events } });
  t.is(
    stdout,
    '2024-01-02T00:00:00.000Z m\\x1b1 evil\\n\\x1b[2J (3 times): default: no rule permits it\n',
  );
});

test('acl denials --json is a list, also an empty one', async (t) => {
  const full = { denials: async () => [denial] };
  const some = await runCli(['acl', 'denials', '--json'], { master: { events: full } });
  t.deepEqual(JSON.parse(some.stdout), [denial]);
  const empty = { denials: async () => [] };
  const none = await runCli(['acl', 'denials', '--json'], { master: { events: empty } });
  t.is(none.stdout, '[]\n');
});
