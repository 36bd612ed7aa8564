import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { createLocalMaster } from '#cli/local-master.ts';
import {
  type BatchRequest,
  type BatchUpdate,
  type FunctionCall,
  fromJson,
  type JobUpdate,
  MasterError,
  type RunRequest,
  type TargetPlan,
} from '#master';
import {
  isWireMap,
  parsePublicKey,
  rsaVerify,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { startVectorMaster } from '../helpers/vector-master.ts';
import { pem } from '../helpers/vectors.ts';
import { readCases } from './fixture.ts';
import { play, type RecordedCommand, replay } from './replay.ts';
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

test('returns are printed when they arrive, and success exits with 0', async (t) => {
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
      timeoutSeconds: 7,
      gatherJobTimeoutSeconds: 2.5,
    },
  );
});

test('a list may be separated by spaces', async (t) => {
  const { requests } = await salt(['-L', 'm1 m2', 'test.ping'], [published('m1'), finished()]);
  t.deepEqual(requests[0]?.tgt, ['m1', 'm2']);
});

test('the values of keywords in --no-parse stay text', async (t) => {
  const argv = ['*', 'test.arg', 'a=5', 'b=5', '--no-parse', 'x,b'];
  const { requests } = await salt(argv, [published('m1'), finished()]);
  t.deepEqual({ ...requests[0]?.kwarg }, { a: 5, b: '5' });
});

test('a failed minion makes the command exit with 1', async (t) => {
  const updates = [published('m1'), returned('m1', 'broken', 2), finished()];
  const { code, stderr } = await salt(['*', 'state.apply'], updates);
  t.is(stderr, 'ERROR: Minions returned with non-zero exit code\n');
  t.is(code, 1);
});

test('a retcode that is a map means failure if one of its codes does', async (t) => {
  const update = { ...returned('m1', 'x'), retcode: { 'test.ping': 0, 'cmd.run': 3 } };
  t.is((await salt(['*', 'test.ping'], [published('m1'), update, finished()])).code, 1);
  const good = { ...returned('m1', 'x'), retcode: { 'test.ping': 0 } };
  t.is((await salt(['*', 'test.ping'], [published('m1'), good, finished()])).code, 0);
});

test('a silent minion is printed as Salt prints it, and the command exits with 1', async (t) => {
  const updates = [published('m1', 'm2'), returned('m1', true), finished('m2')];
  const { code, stdout } = await salt(['*', 'test.ping'], updates);
  const [head, ...lines] = stdout.split('\n').slice(2);
  t.is(head, 'm2:');
  t.is(lines[0], '    Minion did not return. [No response]');
  t.is(lines.at(-2), `    salt-run jobs.lookup_jid ${jid}`);
  t.is(code, 1);
});

test("without a matching minion Salt's text is printed, and the exit code is 2", async (t) => {
  const { code, stdout, stderr } = await salt(['nope*', 'test.ping'], [published(), finished()]);
  t.is(stdout, 'No minions matched the target. No command was sent, no jid was assigned.\n');
  t.is(stderr, 'ERROR: No return received\n');
  t.is(code, 2);
});

test('names of a list without a key are reported', async (t) => {
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

test('--static prints one document for all returns, and reports silent minions', async (t) => {
  const updates = [published('m1', 'm2'), returned('m2', true), finished('m1')];
  const argv = ['*', 'test.ping', '--out', 'json', '--static'];
  const { code, stdout, stderr } = await salt(argv, updates);
  t.deepEqual(JSON.parse(stdout), { m2: true });
  t.is(stderr, 'saltbridge: no answer: m1\n');
  t.is(code, 0);
});

test('--static without any return exits with 2', async (t) => {
  const updates = [published('m1'), finished('m1')];
  const { code, stdout } = await salt(['*', 'test.ping', '-s'], updates);
  t.is(stdout, '');
  t.is(code, 2);
});

test('a function can select JSON, and the option --out takes precedence', async (t) => {
  const updates = [published('m1'), { ...returned('m1', 1), out: 'json' }, finished()];
  t.is((await salt(['*', 'test.ping'], updates)).stdout, '{\n    "m1": 1\n}\n');
  t.is((await salt(['*', 'test.ping', '--out', 'nested'], updates)).stdout, 'm1:\n    1\n');
});

test('--out-file writes the returns to a new or an existing file', async (t) => {
  const file = path.join(await temporaryDirectory(t), 'returns');
  const updates = [published('m1', 'm2'), returned('m2', true), returned('m1', 1), finished()];
  const argv = ['*', 'test.ping', '--out', 'txt', '--out-file', file];
  await salt(argv, updates);
  t.is((await salt(argv, updates)).stdout, '');
  t.is(await readFile(file, 'utf8'), 'm2: True\nm1: 1\n');
  await salt([...argv, '--out-file-append'], updates);
  t.is(await readFile(file, 'utf8'), 'm2: True\nm1: 1\nm2: True\nm1: 1\n');
});

test('an unknown outputter is reported, and replaced by nested', async (t) => {
  const updates = [published('m1'), returned('m1', 1), finished()];
  const { stdout, stderr } = await salt(['*', 'test.ping', '--out=dson\x1b'], updates);
  t.is(stdout, 'm1:\n    1\n');
  const message = 'Invalid outputter dson\\x1b specified, fall back to nested';
  t.is(stderr, `[ERROR   ] ${message}\n`);
});

test("a batch of an invalid size is refused with Salt's text", async (t) => {
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

test('--batch-safe-limit runs a batch if the target matches that many minions', async (t) => {
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

test('options that are stored with the job become the request', async (t) => {
  const argv = ['*', 'test.ping', '--metadata', '{a: 1}', '--return', 'redis', '--subset', '2'];
  const jid = ['--jid', '20240102030405123456'];
  const { requests } = await salt([...argv, ...jid], [published('m1'), finished()]);
  const [request] = requests;
  t.deepEqual([request?.ret, request?.subset, request?.jid], ['redis', 2, jid[1]]);
  t.deepEqual({ ...request?.metadata }, { a: 1 });
  t.is((await salt(['*', 'test.ping', '--metadata', 'a'], [])).code, 64);
});

test("without a function the help is printed, with Salt's exit code", async (t) => {
  const { code, stdout, stderr } = await salt(['m1'], []);
  t.regex(stdout, /^Usage: saltbridge salt/);
  t.is(stderr, '\nIncomplete options passed.\n\n');
  t.is(code, 42);
  const nobody = await salt([], []);
  t.is(nobody.stderr, '\nCannot execute command without defining a target.\n\n');
  t.is(nobody.code, 42);
});

test('colours are used on terminals, unless an option disables them', async (t) => {
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

test('Ctrl-C prints the jid and how to find the other returns', async (t) => {
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

test('text from minions cannot control the terminal', async (t) => {
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

test('two target types in one call are refused', async (t) => {
  const { code, stderr, requests } = await salt(['-G', '-C', 'os:x', 'test.ping'], []);
  t.is(code, 64);
  t.regex(stderr, /The options --grain\/--compound are mutually exclusive/);
  t.deepEqual(requests, []);
});

test('an invalid target is reported with the reason', async (t) => {
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
    'saltbridge: invalid target: a term is missing at the end\nERROR: No return received\n',
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
  return runCli(['salt', '--dry-run', ...argv], { master: { jobs: { plan: async () => result } } });
}

test('--dry-run prints the reason for each minion, and runs nothing', async (t) => {
  const { code, stdout, stderr } = await planned(['-C', 'G@os:x or L@m1,gone', 'test.ping'], plan);
  t.is(stdout, 'm1: matched by G@os:x, m1\nm2: facts unknown\ngone: missing, no accepted key\n');
  t.is(stderr, '');
  t.is(code, 0);
});

test('--dry-run needs no function, and prints JSON for programs', async (t) => {
  const { code, stdout } = await planned(['*', '--out', 'json'], plan);
  t.deepEqual(JSON.parse(stdout), plan);
  t.is(code, 0);
});

test('--dry-run ends with 2 when no minion matches, and reports a broken target', async (t) => {
  const nobody = { tgt: 'a and', tgtType: 'compound', minions: [], problem: 'a term is missing' };
  const { code, stdout, stderr } = await planned(['-C', 'a and'], nobody);
  t.is(stdout, '');
  t.is(stderr, 'saltbridge: invalid target: a term is missing\nNo minions matched the target.\n');
  t.is(code, 2);
});

// Recorded commands of Salt's own `salt` are replayed. The output must be equal.

const commands = readCases<RecordedCommand>('salt-commands.json');

/** Matches messages that we print to standard error and Salt leaves out or writes to its log. */
const ours = /^(saltbridge: |\[ERROR {3}\] )/;

for (const [index, command] of commands.entries()) {
  const { argv, stdout, stderr, code } = command;
  test(`${index}: salt ${argv.join(' ').slice(0, 100)} prints what Salt prints`, async (t) => {
    const outcome = await runCli(['salt', ...argv], { master: replay(command) });
    t.is(outcome.stdout, stdout);
    const lines = outcome.stderr.split('\n').filter((line) => !ours.test(line));
    t.is(lines.join('\n'), stderr);
    t.is(outcome.code, code);
  });
}

test('arguments are published as Salt published them', async (t) => {
  for (const command of commands.filter(({ argv }) => !argv.includes('-b'))) {
    const asked: RunRequest[] = [];
    const recorded = replay(command);
    const run = (request: RunRequest): AsyncIterable<JobUpdate> => {
      asked.push(request);
      return recorded.jobs?.run?.(request) ?? play(undefined);
    };
    await runCli(['salt', ...command.argv], { master: { jobs: { ...recorded.jobs, run } } });
    const job = command.jobs.at(-1);
    const [request] = asked;
    if (job === undefined || request === undefined) continue;
    const { arg = [], kwarg = {} } = request;
    const hasKeywords = Object.keys(kwarg).length > 0;
    const published = hasKeywords ? [...arg, { __kwarg__: true, ...kwarg }] : arg;
    t.deepEqual(
      JSON.parse(JSON.stringify(published, withoutBigInt)),
      JSON.parse(JSON.stringify(fromJson(job.arg), withoutBigInt)),
      command.argv.join(' '),
    );
  }
});

function withoutBigInt(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

// Recorded commands of Salt's own `salt-key` are repeated without a running master. Output and
// files must be equal.

interface RecordedKeyCommand {
  readonly argv: readonly string[];
  readonly answer: string | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  /** Expected ids by directory. */
  readonly after: Readonly<Record<string, readonly string[]>>;
  /** Expected other files in the PKI directory. */
  readonly files: readonly string[];
}

/** Directory layout that record-keys.py creates. */
const layout: Readonly<Record<string, readonly string[]>> = {
  minions: ['alpha', 'Beta'],
  minions_pre: ['web1', 'web2', 'db1'],
  minions_rejected: ['old1', 'web9'],
  minions_denied: ['alpha', 'evil'],
};

function prepare(t: ExecutionContext): string {
  const directory = temporaryDirectory(t);
  const pki = path.join(directory, 'pki');
  for (const [place, ids] of Object.entries(layout)) {
    mkdirSync(path.join(pki, place), { recursive: true });
    const key = pem(place === 'minions_denied' ? 'minion2' : 'minion').publicPem;
    for (const id of ids) writeFileSync(path.join(pki, place, id), key);
  }
  writeFileSync(path.join(pki, 'master.pem'), pem('master').privatePem);
  writeFileSync(path.join(pki, 'master.pub'), pem('master').publicPem);
  const config = [`root_dir: ${directory}`, `pki_dir: ${pki}`, `sock_dir: ${directory}/s`];
  writeFileSync(path.join(directory, 'master'), config.join('\n'));
  return directory;
}

for (const [index, recorded] of readCases<RecordedKeyCommand>('salt-key.json').entries()) {
  const { argv, answer } = recorded;
  const title = `${index}: salt-key ${argv.join(' ')} ${JSON.stringify(answer ?? '')}`;
  test(`${title} prints and does the same as Salt's command`, async (t) => {
    const directory = prepare(t);
    const given = argv.map((word) => word.replace('{dir}', directory));
    const outcome = await runCli(['salt-key', '-c', directory, ...given], {
      openKeys: createLocalMaster().openKeys,
      ...(answer === null ? {} : { input: `${answer}\n` }),
    });
    t.is(outcome.stdout.replaceAll(directory, '{dir}'), recorded.stdout);
    t.is(outcome.stderr.replaceAll(directory, '{dir}'), recorded.stderr);
    t.is(outcome.code, recorded.code);
    const pki = path.join(directory, 'pki');
    const names = readdirSync(pki).filter((name) => !name.startsWith('minions'));
    t.deepEqual(names.sort(), recorded.files);
    for (const [place, ids] of Object.entries(recorded.after)) {
      t.deepEqual(readdirSync(path.join(pki, place)).sort(), ids, place);
    }
  });
}

test('--gen-keys creates a pair, and does not replace an existing one', async (t) => {
  const directory = temporaryDirectory(t);
  const argv = ['salt-key', '--gen-keys', 'fresh', '--gen-keys-dir', path.join(directory, 'new')];
  const made = await runCli(argv);
  t.regex(made.stdout, /^return:\n {4}([\da-f]{2}:){31}[\da-f]{2}\n$/);
  t.deepEqual(readdirSync(path.join(directory, 'new')).sort(), ['fresh.pem', 'fresh.pub']);
  t.is(statSync(path.join(directory, 'new', 'fresh.pem')).mode & 0o777, 0o400);
  t.is((await runCli(argv)).stdout, made.stdout);
});

test('--gen-signature signs the key as minions receive it, and only once', async (t) => {
  const directory = prepare(t);
  const argv = ['salt-key', '-c', directory, '--gen-signature', '--auto-create'];
  t.is((await runCli(argv)).stdout, 'return:\n    True\n');
  const inPki = (name: string): string => path.join(directory, 'pki', name);
  const signature = Buffer.from(readFileSync(inPki('master_pubkey_signature'), 'utf8'), 'base64');
  const key = parsePublicKey(readFileSync(inPki('master_sign.pub'), 'utf8'));
  const sent = readFileSync(inPki('master.pub'), 'utf8').trim();
  t.true(rsaVerify(key, Buffer.from(sent), signature, 'PKCS1v15-SHA1'));
  t.is((await runCli(argv)).stdout, 'return:\n    False\n');
});

test('without an answer to the prompt, nothing changes', async (t) => {
  const directory = prepare(t);
  const argv = ['salt-key', '-c', directory, '-d', 'web*'];
  const { code, stderr } = await runCli(argv, { openKeys: createLocalMaster().openKeys });
  t.is(stderr, 'saltbridge: no confirmation was given; add -y\n');
  t.is(code, 1);
  t.true(readdirSync(path.join(directory, 'pki', 'minions_pre')).includes('web1'));
});

test('saltbridge key calls a running master, which reports the change', async (t) => {
  const { master, eventsDuring } = await startVectorMaster(t, {
    keys: [{ directory: 'minions_pre', id: 'web1', publicPem: pem('minion').publicPem }],
  });
  const openKeys = async () => ({ keys: master.keys, close: async () => {} });
  const events = await eventsDuring(async () => {
    const { stdout } = await runCli(['salt-key', '-A', '-y'], { openKeys });
    t.true(stdout.endsWith('Key for minion web1 accepted.\n'));
  });
  t.deepEqual(
    events.map(({ tag, data }) => [tag, data.act, data.id]),
    [['salt/key', 'accept', 'web1']],
  );
});

test('saltbridge key works without a master as well', async (t) => {
  const directory = prepare(t);
  const argv = ['key', 'accept', 'db1', '-y', '-c', directory];
  const { stdout } = await runCli(argv, { openKeys: createLocalMaster().openKeys });
  t.is(stdout, 'Key for minion db1 accepted.\n');
  t.true(readdirSync(path.join(directory, 'pki', 'minions')).includes('db1'));
});

test('key delete --state deletes the key of that state and leaves another of the same id', async (t) => {
  const directory = prepare(t);
  const places = (): string[] =>
    Object.keys(layout).filter((place) =>
      readdirSync(path.join(directory, 'pki', place)).includes('alpha'),
    );
  const argv = ['key', 'delete', 'alpha', '--state', 'denied', '-y', '-c', directory];
  t.is((await runCli(argv, { openKeys: createLocalMaster().openKeys })).code, 0);
  t.deepEqual(places(), ['minions']);
  const again = await runCli(argv, { openKeys: createLocalMaster().openKeys });
  t.regex(again.stderr, /no key matches alpha \(looked in: denied\)/);
  t.deepEqual(places(), ['minions']);
});

test('key delete with a fingerprint deletes that key only', async (t) => {
  const directory = prepare(t);
  const { keys, close } = await createLocalMaster().openKeys(directory);
  const [denied] = await keys.list({ state: 'denied' });
  await close();
  const fingerprint = denied?.fingerprint ?? '';
  const argv = ['key', 'delete', 'alpha', '--fingerprint', fingerprint, '-y', '-c', directory];
  t.is((await runCli(argv, { openKeys: createLocalMaster().openKeys })).code, 0);
  t.deepEqual(readdirSync(path.join(directory, 'pki', 'minions')).sort(), ['Beta', 'alpha']);
  t.deepEqual(readdirSync(path.join(directory, 'pki', 'minions_denied')), ['evil']);
});

// Recorded commands of Salt's own `salt-run` are replayed. The output must be equal.

interface RecordedRun {
  readonly argv: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  /** Event with the result of the runner. */
  readonly result: unknown;
}

const runs = readCases<RecordedRun>('salt-run.json');

function resultOf({ result }: RecordedRun): WireMap {
  const value = fromJson(result);
  if (isWireMap(value)) return value;
  throw new TypeError('nothing was recorded');
}

/** Returns a master that gives the recorded results. */
function replayRun(recorded: RecordedRun, asked: FunctionCall[] = []): FakeMaster {
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
    const outcome = await runCli(['salt-run', ...argv], { master: replayRun(recorded) });
    t.is(outcome.stdout, stdout);
    const lines = outcome.stderr.split('\n').filter((line) => !ours.test(line));
    t.is(lines.join('\n'), stderr);
    t.is(outcome.code, code);
  });
}

test("arguments arrive as from Salt's command", async (t) => {
  for (const recorded of runs) {
    const asked: FunctionCall[] = [];
    await runCli(['salt-run', ...recorded.argv], { master: replayRun(recorded, asked) });
    const { arg = [], kwarg = {} } = asked[0] ?? {};
    const keywords: WireValue[] = Object.keys(kwarg).length === 0 ? [] : [{ ...kwarg }];
    // Salt's event contains the arguments after the runner has changed them.
    if (recorded.argv[0] === 'event.send') continue;
    t.deepEqual([...arg, ...keywords].map(plain), [resultOf(recorded).fun_args].flat().map(plain));
  }
});

function plain(value: WireValue | undefined): unknown {
  return JSON.parse(JSON.stringify(value ?? null));
}

test('the return of a function can set the exit code', async (t) => {
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

test('an orchestration is printed as states, or with the requested outputter', async (t) => {
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

test('a function of Salt that the master does not support is an error', async (t) => {
  const run = async (): Promise<never> => {
    throw new MasterError('ERR_NOT_SERVED', 'cloud.query is not served');
  };
  const outcome = await runCli(['salt-run', 'cloud.query'], { master: { runners: { run } } });
  t.is(outcome.code, 64);
  t.is(outcome.stdout, '');
  t.is(outcome.stderr, 'saltbridge: cloud.query is not served\n');
});

test('-d, and a call without a function, print the available functions', async (t) => {
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

test('the timeout for minions is passed on', async (t) => {
  const asked: FunctionCall[] = [];
  const run = async (call: FunctionCall): Promise<never> => {
    asked.push(call);
    throw new MasterError('ERR_UNKNOWN_FUN', '');
  };
  await runCli(['salt-run', '-t', '2.5', 'manage.up'], { master: { runners: { run } } });
  t.is(asked[0]?.timeoutSeconds, 2.5);
});
