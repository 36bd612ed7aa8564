/** Commands of Salt's own `salt-run`, played again: what it printed, we print. */
import test from 'ava';
import { type FunctionCall, fromJson, MasterError } from '../../master/index.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { readCases } from './fixture.ts';
import { type FakeMaster, runCli } from './run-cli.ts';

interface RecordedRun {
  readonly argv: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  /** The event that told what came of it. */
  readonly result: unknown;
}

const runs = readCases<RecordedRun>('salt-run.json');

/** What we say on stderr that Salt leaves out, or writes to its log. */
const ours = /^(saltbridge: |\[ERROR {3}\] )/;

function resultOf({ result }: RecordedRun): WireMap {
  const value = fromJson(result);
  if (isWireMap(value)) return value;
  throw new TypeError('nothing was recorded');
}

/** A master that gives what Salt's gave. */
function replay(recorded: RecordedRun, asked: FunctionCall[] = []): FakeMaster {
  const result = resultOf(recorded);
  const check = (call: FunctionCall): void => {
    asked.push(call);
    if (result.retcode === 254) throw new MasterError('ERR_UNKNOWN_FUN', String(result.return));
  };
  return {
    runners: {
      run: async (call) => {
        check(call);
        const { return: value = null, success } = result;
        return { jid: '', fun: call.fun, return: value, success: success === true };
      },
      start: async (call) => {
        check(call);
        return { jid: '', tag: 'salt/run/' };
      },
    },
  };
}

for (const [index, recorded] of runs.entries()) {
  const { argv, stdout, stderr, code } = recorded;
  test(`${index}: salt-run ${argv.join(' ')} prints what Salt prints`, async (t) => {
    const outcome = await runCli(['salt-run', ...argv], { master: replay(recorded) });
    t.is(outcome.stdout, stdout);
    const lines = outcome.stderr.split('\n').filter((line) => !ours.test(line));
    t.is(lines.join('\n'), stderr);
    t.is(outcome.code, code);
  });
}

test('arguments arrive as those of Salt', async (t) => {
  for (const recorded of runs) {
    const asked: FunctionCall[] = [];
    await runCli(['salt-run', ...recorded.argv], { master: replay(recorded, asked) });
    const { arg = [], kwarg = {} } = asked[0] ?? {};
    const keywords: WireValue[] = Object.keys(kwarg).length === 0 ? [] : [{ ...kwarg }];
    // Salt's event has what its runner had made of its arguments.
    if (recorded.argv[0] === 'event.send') continue;
    t.deepEqual([...arg, ...keywords].map(plain), [resultOf(recorded).fun_args].flat().map(plain));
  }
});

function plain(value: WireValue | undefined): unknown {
  return JSON.parse(JSON.stringify(value ?? null));
}

test('what a function returns may say what the command ends with', async (t) => {
  const run = (value: WireValue, retcode?: number): FakeMaster => ({
    runners: {
      run: async ({ fun }) => ({
        jid: '',
        fun,
        return: value,
        success: true,
        ...(retcode === undefined ? {} : { retcode }),
      }),
    },
  });
  const codeOf = async (master: FakeMaster): Promise<number> =>
    (await runCli(['salt-run', 'x.y'], { master })).code;
  t.is(await codeOf(run({ retcode: 3 })), 3);
  t.is(await codeOf(run({ data: { retcode: 4 }, outputter: 'nested' })), 4);
  t.is(await codeOf(run('failed', 1)), 1);
  t.is(await codeOf(run({ a: 1 })), 0);
});

test('an orchestration is printed as states, or as whoever asked for it otherwise', async (t) => {
  const states = {
    'test_|-a_|-a_|-nop': { result: true, changes: {}, comment: 'Success!', __run_num__: 0 },
  };
  const value = { data: { north_master: states }, outputter: 'highstate', retcode: 1 };
  const run = async ({ fun }: FunctionCall) => ({ jid: '', fun, return: value, success: false });
  const master: FakeMaster = { runners: { run } };
  const shown = await runCli(['salt-run', 'state.orch', 'a'], { master });
  t.regex(shown.stdout, /^north_master:\n-+\n {10}ID: a\n.*Summary for north_master/s);
  t.is(shown.code, 1);
  const json = await runCli(['salt-run', '--out=json', 'state.orch', 'a'], { master });
  t.deepEqual(JSON.parse(json.stdout), value);
});

test('a function that Salt has and the master has not is an error', async (t) => {
  const run = async (): Promise<never> => {
    throw new MasterError('ERR_NOT_SERVED', 'cloud.query is not served');
  };
  const outcome = await runCli(['salt-run', 'cloud.query'], { master: { runners: { run } } });
  t.is(outcome.code, 64);
  t.is(outcome.stdout, '');
  t.is(outcome.stderr, 'saltbridge: cloud.query is not served\n');
});

test('-d, and no function at all, print what there is', async (t) => {
  const asked: unknown[] = [];
  const docs = async (prefix?: string): Promise<Record<string, string>> => {
    asked.push(prefix);
    return { 'jobs.list_jobs': 'Lists.\n\njobs.list_jobs(a)' };
  };
  const master = { runners: { docs } };
  const all = await runCli(['salt-run'], { master });
  t.is(all.stdout, 'jobs.list_jobs:\n\n    Lists.\n\n    jobs.list_jobs(a)\n\n');
  await runCli(['salt-run', '-d', 'jobs'], { master });
  t.deepEqual(asked, [undefined, 'jobs']);
});

test('the time that minions have is handed on', async (t) => {
  const asked: FunctionCall[] = [];
  const run = async (call: FunctionCall): Promise<never> => {
    asked.push(call);
    throw new MasterError('ERR_UNKNOWN_FUN', '');
  };
  await runCli(['salt-run', '-t', '2.5', 'manage.up'], { master: { runners: { run } } });
  t.is(asked[0]?.timeout, 2.5);
});
