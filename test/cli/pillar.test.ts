import test from 'ava';
import type { PillarQuestion } from '../../master/index.ts';
import { runCli } from './run-cli.ts';

test('a value of a pillar is shown by its path', async (t) => {
  const calls: PillarQuestion[] = [];
  const show = async (question: PillarQuestion) => {
    calls.push(question);
    return { a: { b: [1, 'x'] } };
  };
  const master = { pillar: { show } };
  const { stdout } = await runCli(['pillar', 'show', 'web1', 'a:b', '--pillarenv', 'dev'], {
    master,
  });
  t.is(stdout, '- 1\n- x\n');
  t.deepEqual(calls, [{ minion: 'web1', pillarenv: 'dev' }]);
  const json = await runCli(['pillar', 'show', 'web1', '--json'], { master });
  t.deepEqual(JSON.parse(json.stdout), { a: { b: [1, 'x'] } });
});

test('a key with nothing under it is told, and is a failure', async (t) => {
  const master = { pillar: { show: async () => ({ a: 1 }) } };
  const result = await runCli(['pillar', 'show', 'web1', 'a:b'], { master });
  t.is(result.stdout, '');
  t.is(result.code, 1);
  t.regex(result.stderr, /nothing under this key/);
});

test('an explanation names files and lines, and what a minion could claim', async (t) => {
  const explain = async () => ({
    value: 'x',
    followsFromGrains: true,
    omitted: 3,
    files: [
      { saltenv: 'base', sls: 'a', file: 'a.sls', line: 7, value: 'y' },
      { saltenv: 'base', sls: 'b', file: 'b/init.sls', value: 'x' },
    ],
  });
  const master = { pillar: { explain } };
  const { stdout } = await runCli(['pillar', 'explain', 'web1', 'k'], { master });
  t.is(
    stdout,
    "3 more files lie under these.\nbase: a.sls:7 (a)\n    y\nbase: b/init.sls (b)\n    x\nIt follows from the minion's own grains.\nValue:\n    x\n",
  );
});

test('a difference has what was and what would be', async (t) => {
  const changes = [
    { path: 'a:b', before: 1, after: 2 },
    { path: 'c', after: 'new' },
  ];
  const master = { pillar: { diff: async () => changes } };
  const { stdout } = await runCli(['pillar', 'diff', 'web1'], { master });
  t.is(stdout, 'a:b:\n  - 1\n  + 2\nc:\n  + new\n');
  const same = await runCli(['pillar', 'diff', 'web1'], {
    master: { pillar: { diff: async () => [] } },
  });
  t.is(same.stdout, '');
  t.regex(same.stderr, /Nothing changes/);
});
