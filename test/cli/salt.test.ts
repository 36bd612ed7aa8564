import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import type {
  BatchRequest,
  BatchUpdate,
  JobUpdate,
  RunRequest,
  TargetPlan,
} from '../../master/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import {
  type CliOptions,
  type CliOutcome,
  type FakeMaster,
  runCli,
  streamOf,
  TextStream,
} from './run-cli.ts';

const jid = '20240102030405123456';

function published(...minions: string[]): JobUpdate {
  return { type: 'published', jid, minions, missing: [], skipped: 0 };
}

function returned(minion: string, value: string | number | boolean, retcode = 0): JobUpdate {
  const rest = { fun: 'test.ping', retcode, success: retcode === 0, receivedAt: 0 };
  return { type: 'return', jid, minion, return: value, ...rest };
}

function finished(...silent: string[]): JobUpdate {
  return { type: 'finished', jid, answered: [], silent, reconnecting: [], deliveries: [] };
}

interface SaltOutcome extends CliOutcome {
  readonly requests: readonly RunRequest[];
}

async function salt(
  argv: string[],
  updates: JobUpdate[],
  options: CliOptions = {},
): Promise<SaltOutcome> {
  const requests: RunRequest[] = [];
  const run = (request: RunRequest): AsyncGenerator<JobUpdate, void, void> => {
    requests.push(request);
    return streamOf(...updates);
  };
  const outcome = await runCli(['salt', ...argv], { ...options, master: { jobs: { run } } });
  return { ...outcome, requests };
}

test('returns are printed as they come, and success ends with 0', async (t) => {
  const updates = [published('m1', 'm2'), returned('m2', true), returned('m1', 'up'), finished()];
  const { code, stdout, stderr } = await salt(['*', 'test.ping'], updates);
  t.is(stdout, 'm2:\n    True\nm1:\n    up\n');
  t.is(stderr, '');
  t.is(code, 0);
});

test('arguments, keywords and options become the request', async (t) => {
  const argv = ['-L', 'm1, m2', '-t', '7', '-g', '2.5', 'cmd.run', 'ls -l', '5', 'cwd=/tmp'];
  const { requests } = await salt(argv, [published('m1'), finished()]);
  const [request] = requests;
  t.deepEqual(
    { ...request, kwarg: { ...request?.kwarg } },
    {
      tgt: ['m1', 'm2'],
      tgtType: 'list',
      fun: 'cmd.run',
      arg: ['ls -l', 5],
      kwarg: { cwd: '/tmp' },
      timeout: 7,
      gatherJobTimeout: 2.5,
    },
  );
});

test('a list may be separated by spaces', async (t) => {
  const { requests } = await salt(['-L', 'm1 m2', 'test.ping'], [published('m1'), finished()]);
  t.deepEqual(requests[0]?.tgt, ['m1', 'm2']);
});

test('the values of keywords named by --no-parse stay text', async (t) => {
  const argv = ['*', 'test.arg', 'a=5', 'b=5', '--no-parse', 'x,b'];
  const { requests } = await salt(argv, [published('m1'), finished()]);
  t.deepEqual({ ...requests[0]?.kwarg }, { a: 5, b: '5' });
});

test('a failed minion ends the command with 1', async (t) => {
  const updates = [published('m1'), returned('m1', 'broken', 2), finished()];
  const { code, stderr } = await salt(['*', 'state.apply'], updates);
  t.is(stderr, 'ERROR: Minions returned with non-zero exit code\n');
  t.is(code, 1);
});

test('a retcode that is a map fails when one of its codes does', async (t) => {
  const update = { ...returned('m1', 'x'), retcode: { 'test.ping': 0, 'cmd.run': 3 } };
  t.is((await salt(['*', 'test.ping'], [published('m1'), update, finished()])).code, 1);
  const good = { ...returned('m1', 'x'), retcode: { 'test.ping': 0 } };
  t.is((await salt(['*', 'test.ping'], [published('m1'), good, finished()])).code, 0);
});

test('a silent minion is shown as Salt shows it, and ends the command with 1', async (t) => {
  const updates = [published('m1', 'm2'), returned('m1', true), finished('m2')];
  const { code, stdout } = await salt(['*', 'test.ping'], updates);
  const [head, ...lines] = stdout.split('\n').slice(2);
  t.is(head, 'm2:');
  t.is(lines[0], '    Minion did not return. [No response]');
  t.is(lines.at(-2), `    salt-run jobs.lookup_jid ${jid}`);
  t.is(code, 1);
});

test('nobody matched: the words of Salt, and 2', async (t) => {
  const { code, stdout, stderr } = await salt(['nope*', 'test.ping'], [published(), finished()]);
  t.is(stdout, 'No minions matched the target. No command was sent, no jid was assigned.\n');
  t.is(stderr, 'ERROR: No return received\n');
  t.is(code, 2);
});

test('names of a list that have no key are told', async (t) => {
  const update: JobUpdate = {
    type: 'published',
    jid,
    minions: ['m1'],
    missing: ['m\x1b9'],
    skipped: 0,
  };
  const { stderr } = await salt(
    ['-L', 'm1,m9', 'test.ping'],
    [update, returned('m1', 1), finished()],
  );
  t.is(stderr.split('\n')[0], 'saltbridge: no accepted key: m\\x1b9');
});

test('--out json prints one document for each minion', async (t) => {
  const updates = [published('m1', 'm2'), returned('m2', true), returned('m1', 1), finished()];
  const { stdout } = await salt(['*', 'test.ping', '--out', 'json'], updates);
  t.is(stdout, '{\n    "m2": true\n}\n{\n    "m1": 1\n}\n');
  t.is((await salt(['*', 'test.ping', '--output=json'], updates)).stdout, stdout);
});

test('--static prints one document for all that answered, and tells the others', async (t) => {
  const updates = [published('m1', 'm2'), returned('m2', true), finished('m1')];
  const argv = ['*', 'test.ping', '--out', 'json', '--static'];
  const { code, stdout, stderr } = await salt(argv, updates);
  t.deepEqual(JSON.parse(stdout), { m2: true });
  t.is(stderr, 'saltbridge: no answer: m1\n');
  t.is(code, 0);
});

test('--static with no answer at all ends with 2', async (t) => {
  const updates = [published('m1'), finished('m1')];
  const { code, stdout } = await salt(['*', 'test.ping', '-s'], updates);
  t.is(stdout, '');
  t.is(code, 2);
});

test('a function may ask for JSON, a person has the last word', async (t) => {
  const updates = [published('m1'), { ...returned('m1', 1), out: 'json' }, finished()];
  t.is((await salt(['*', 'test.ping'], updates)).stdout, '{\n    "m1": 1\n}\n');
  t.is((await salt(['*', 'test.ping', '--out', 'nested'], updates)).stdout, 'm1:\n    1\n');
});

test('--out-file takes the returns, emptied first or continued', async (t) => {
  const file = path.join(await temporaryDirectory(t), 'returns');
  const updates = [published('m1', 'm2'), returned('m2', true), returned('m1', 1), finished()];
  const argv = ['*', 'test.ping', '--out', 'txt', '--out-file', file];
  await salt(argv, updates);
  t.is((await salt(argv, updates)).stdout, '');
  t.is(await readFile(file, 'utf8'), 'm2: True\nm1: 1\n');
  await salt([...argv, '--out-file-append'], updates);
  t.is(await readFile(file, 'utf8'), 'm2: True\nm1: 1\nm2: True\nm1: 1\n');
});

test('an outputter that nobody has is told, and nested takes its place', async (t) => {
  const updates = [published('m1'), returned('m1', 1), finished()];
  const { stdout, stderr } = await salt(['*', 'test.ping', '--out=dson\x1b'], updates);
  t.is(stdout, 'm1:\n    1\n');
  const message = 'Invalid outputter dson\\x1b specified, fall back to nested';
  t.is(stderr, `[ERROR   ] ${message}\n`);
});

test('a batch of a size that is none is refused in the words of Salt', async (t) => {
  for (const size of ['0', 'many', '1.5', '%%']) {
    const { code, stdout } = await salt(['*', 'test.ping', '-b', size], []);
    const forms = 'Data must be in the form of %10, 10% or 3';
    t.is(stdout, `Invalid batch data sent: ${size}\n${forms}\n`);
    t.is(code, 1);
  }
});

test('batch options become the request', async (t) => {
  const requests: BatchRequest[] = [];
  const batch = (request: BatchRequest): AsyncIterable<BatchUpdate> => {
    requests.push(request);
    return streamOf({ type: 'ended', left: [] });
  };
  const argv = ['salt', '*', 'test.ping', '-b', '%25', '--batch-wait', '1.5', '--failhard'];
  await runCli(argv, { master: { jobs: { batch } } });
  const [{ kwarg: _kwarg, ...request } = {}] = requests;
  const spread = { size: '25%', waitSeconds: 1.5, failHard: true };
  t.deepEqual(request, { tgt: '*', tgtType: 'glob', fun: 'test.ping', arg: [], ...spread });
});

test('--batch-safe-limit makes a batch where so many minions are meant', async (t) => {
  const ids = ['m1', 'm2', 'm3'];
  const minions = ids.map((id) => ({ id, reason: 'matched' as const, by: [id] }));
  const sizes: unknown[] = [];
  const jobs: FakeMaster['jobs'] = {
    plan: async () => ({ tgt: '*', tgtType: 'glob', minions }),
    batch: ({ size }) => {
      sizes.push(size);
      return streamOf({ type: 'ended', left: [] });
    },
    run: () => streamOf(published('m1'), returned('m1', true), finished()),
  };
  const argv = ['salt', '*', 'test.ping', '--batch-safe-size', '2', '--batch-safe-limit'];
  const { stdout } = await runCli([...argv, '3'], { master: { jobs } });
  t.is(stdout, '\nNOTICE: Too many minions targeted, switching to batch execution.\n');
  t.deepEqual(sizes, [2]);
  t.is((await runCli([...argv, '4'], { master: { jobs } })).stdout, 'm1:\n    True\n');
});

test('options that are kept with the job become the request', async (t) => {
  const argv = ['*', 'test.ping', '--metadata', '{a: 1}', '--return', 'redis', '--subset', '2'];
  const jid = ['--jid', '20240102030405123456'];
  const { requests } = await salt([...argv, ...jid], [published('m1'), finished()]);
  const [request] = requests;
  t.deepEqual([request?.ret, request?.subset, request?.jid], ['redis', 2, jid[1]]);
  t.deepEqual({ ...request?.metadata }, { a: 1 });
  t.is((await salt(['*', 'test.ping', '--metadata', 'a'], [])).code, 64);
});

test('without a function the help is shown, and it ends as Salt does', async (t) => {
  const { code, stdout, stderr } = await salt(['m1'], []);
  t.regex(stdout, /^Usage: saltbridge salt/);
  t.is(stderr, '\nIncomplete options passed.\n\n');
  t.is(code, 42);
  const nobody = await salt([], []);
  t.is(nobody.stderr, '\nCannot execute command without defining a target.\n\n');
  t.is(nobody.code, 42);
});

test('colours go to terminals, unless they are told otherwise', async (t) => {
  const updates = [published('m1'), returned('m1', true), finished()];
  const colored = '\x1b[0;36mm1\x1b[0;0m:\n    \x1b[0;1;33mTrue\x1b[0;0m\n';
  const terminal = { stdout: new TextStream({ isTTY: true }) };
  t.is((await salt(['*', 'test.ping'], updates, terminal)).stdout, colored);
  const plain = { stdout: new TextStream({ isTTY: true }) };
  t.is((await salt(['*', 'test.ping', '--no-color'], updates, plain)).stdout, 'm1:\n    True\n');
  t.is((await salt(['*', 'test.ping', '--force-color'], updates)).stdout, colored);
});

test('progress is shown on a terminal and cleared before output', async (t) => {
  const updates = [published('m1', 'm2'), returned('m1', true), returned('m2', true), finished()];
  const stderr = new TextStream({ isTTY: true });
  await salt(['*', 'test.ping'], updates, { stderr });
  const clear = '\r\x1b[K';
  t.is(stderr.text, `${clear}0 of 2 answered${clear}${clear}1 of 2 answered${clear}`);
});

test('Ctrl-C tells the jid and how to find the rest', async (t) => {
  const controller = new AbortController();
  async function* run(): AsyncGenerator<JobUpdate, void, void> {
    yield published('m1');
    controller.abort();
    throw new Error('the connection was given up');
  }
  const { code, stderr } = await runCli(['salt', '*', 'test.ping'], {
    interruption: controller.signal,
    master: { jobs: { run } },
  });
  t.true(stderr.startsWith(`\nExiting gracefully on Ctrl-c\nThis job's jid is: ${jid}\n`));
  t.true(stderr.endsWith(`\n\nsalt-run jobs.lookup_jid ${jid}\n`));
  t.is(code, 130);
});

test('what minions send cannot steer the terminal', async (t) => {
  const updates = [published('m\x1b[2J'), returned('m\x1b[2J', '\x1b[31m\x9b1m'), finished()];
  const { stdout } = await salt(['*', 'test.ping'], updates);
  t.is(stdout, 'm\\x1b[2J:\n    ?[31m\\x9b1m\n');
});

const targetFlags = [
  ['-E', '--pcre', 'pcre'],
  ['-G', '--grain', 'grain'],
  ['-P', '--grain-pcre', 'grain_pcre'],
  ['-N', '--nodegroup', 'nodegroup'],
  ['-I', '--pillar', 'pillar'],
  ['-J', '--pillar-pcre', 'pillar_pcre'],
  ['-C', '--compound', 'compound'],
  ['-S', '--ipcidr', 'ipcidr'],
] as const;

for (const [short, long, tgtType] of targetFlags) {
  test(`${short} and ${long} make a target of type ${tgtType}`, async (t) => {
    for (const flag of [short, long]) {
      const { requests } = await salt([flag, 'os:x', 'test.ping'], [published('m1'), finished()]);
      t.like(requests[0], { tgt: 'os:x', tgtType, fun: 'test.ping' });
    }
  });
}

test('another delimiter becomes part of the request', async (t) => {
  const argv = ['-G', '--delimiter', '|', 'os|x', 'test.ping'];
  const { requests } = await salt(argv, [published('m1'), finished()]);
  t.like(requests[0], { tgt: 'os|x', tgtType: 'grain', delimiter: '|' });
});

test('two kinds of target at a time are refused', async (t) => {
  const { code, stderr, requests } = await salt(['-G', '-C', 'os:x', 'test.ping'], []);
  t.is(code, 64);
  t.regex(stderr, /cannot be used with/);
  t.deepEqual(requests, []);
});

test('a broken target says why nobody matched', async (t) => {
  const broken: JobUpdate = {
    type: 'published',
    jid,
    minions: [],
    missing: [],
    skipped: 0,
    problem: 'a term is missing at the end',
  };
  const { code, stderr } = await salt(['-C', 'web1 and', 'test.ping'], [broken, finished()]);
  t.is(
    stderr,
    'saltbridge: the target is broken: a term is missing at the end\nERROR: No return received\n',
  );
  t.is(code, 2);
});

const plan: TargetPlan = {
  tgt: 'G@os:x or L@m1,gone',
  tgtType: 'compound',
  minions: [
    { id: 'm1', reason: 'matched', by: ['G@os:x', 'm1'] },
    { id: 'm2', reason: 'facts-unknown' },
    { id: 'gone', reason: 'missing' },
  ],
};

async function planned(argv: string[], result: TargetPlan): Promise<CliOutcome> {
  return runCli(['salt', '--plan', ...argv], { master: { jobs: { plan: async () => result } } });
}

test('--plan prints the reason for each minion, and runs nothing', async (t) => {
  const { code, stdout, stderr } = await planned(['-C', 'G@os:x or L@m1,gone', 'test.ping'], plan);
  t.is(stdout, 'm1: matched by G@os:x, m1\nm2: facts unknown\ngone: missing, no accepted key\n');
  t.is(stderr, '');
  t.is(code, 0);
});

test('--plan needs no function, and prints JSON for programs', async (t) => {
  const { code, stdout } = await planned(['*', '--out', 'json'], plan);
  t.deepEqual(JSON.parse(stdout), plan);
  t.is(code, 0);
});

test('--plan ends with 2 when there is nobody, and says what is broken', async (t) => {
  const nobody = { tgt: 'a and', tgtType: 'compound', minions: [], problem: 'a term is missing' };
  const { code, stdout, stderr } = await planned(['-C', 'a and'], nobody);
  t.is(stdout, '');
  t.is(
    stderr,
    'saltbridge: the target is broken: a term is missing\nNo minions matched the target.\n',
  );
  t.is(code, 2);
});
