import test from 'ava';
import { runCli } from './run-cli.ts';

const commands = [
  [],
  ['master'],
  ['key'],
  ['key', 'list'],
  ['key', 'accept'],
  ['key', 'reject'],
  ['key', 'delete'],
  ['key', 'finger'],
  ['key', 'print'],
  ['key', 'gen'],
  ['key', 'unpin'],
  ['salt'],
  ['salt-key'],
  ['jobs', 'list'],
  ['jobs', 'show'],
  ['events'],
  ['status'],
  ['store', 'backup'],
  ['store', 'restore'],
  ['store', 'check'],
  ['store', 'info'],
  ['completion'],
  ['acl', 'denials'],
  ['pillar', 'show'],
  ['pillar', 'explain'],
  ['pillar', 'diff'],
  ['acl', 'check'],
  ['acl', 'learn'],
  ['acl', 'replay'],
  ['acl', 'reload'],
  ['audit', 'show'],
  ['audit', 'verify'],
  ['reactions', 'list'],
  ['reactions', 'show'],
  ['reactions', 'runs'],
  ['bridge', 'handle', 'add'],
  ['bridge', 'handle', 'list'],
  ['bridge', 'handle', 'show'],
  ['bridge', 'handle', 'remove'],
  ['bridge', 'outbox', 'list'],
  ['bridge', 'outbox', 'retry'],
  ['bridge', 'outbox', 'drop'],
  ['minion'],
  ['migrate', 'check'],
  ['doctor'],
];

for (const command of commands) {
  test(`${['saltbridge', ...command].join(' ')} --help says what it takes`, async (t) => {
    const { code, stdout } = await runCli([...command, '--help']);
    t.snapshot(stdout);
    t.is(code, 0);
  });
}
