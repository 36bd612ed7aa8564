import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { Writable } from 'node:stream';
import test, { type ExecutionContext } from 'ava';
import { connectMaster } from '#client';
import { loadMasterConfig, reaction } from '#config';
import {
  type Delivery,
  type Denial,
  type EventsRequest,
  type JobReport,
  type MasterApi,
  MasterError,
  type MasterEvent,
  type MasterStatus,
  type ReactionInfo,
  type ReactionRun,
} from '#master';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { runCli, streamOf } from './run-cli.ts';

type PillarQuestion = Parameters<MasterApi['pillar']['show']>[0];

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

test('status prints readable text', async (t) => {
  const { stdout } = await runCli(['status'], { master: { status: async () => status } });
  t.snapshot(stdout);
});

test('status prints the measurements of extensions', async (t) => {
  const extensions = { bridge: { 'outbox_signals waiting': 3, outbox_oldest_seconds: 12.34 } };
  const master = { status: async () => ({ ...status, extensions }) };
  const { stdout } = await runCli(['status'], { master });
  t.regex(stdout, /^bridge {7}outbox_signals waiting: 3$/m);
  t.regex(stdout, /^bridge {7}outbox_oldest_seconds: 12\.3$/m);
});

test('status --json prints the response of the master', async (t) => {
  const outcome = await runCli(['status', '--json'], { master: { status: async () => status } });
  t.deepEqual(JSON.parse(outcome.stdout), status);
});

test('acl denials prints one denial per line', async (t) => {
  const events = { denials: async () => [denial] };
  const { stdout } = await runCli(['acl', 'denials'], { master: { events } });
  t.is(
    stdout,
    '2024-01-02T00:00:00.000Z m\\x1b1 evil\\n\\x1b[2J (3 times): default: no rule permits it\n',
  );
});

test('acl denials --json prints a list, even if it is empty', async (t) => {
  const full = { denials: async () => [denial] };
  const some = await runCli(['acl', 'denials', '--json'], { master: { events: full } });
  t.deepEqual(JSON.parse(some.stdout), [denial]);
  const empty = { denials: async () => [] };
  const none = await runCli(['acl', 'denials', '--json'], { master: { events: empty } });
  t.is(none.stdout, '[]\n');
});

/** Runs `saltbridge doctor` with a configuration that has two usual lines and the given ones. */
async function doctor(t: ExecutionContext, yaml: string, ...flags: readonly string[]) {
  const root = temporaryDirectory(t);
  const directory = path.join(root, 'etc');
  mkdirSync(directory);
  const ports = 'publish_port: 0\nret_port: 0\n';
  writeFileSync(path.join(directory, 'master'), `root_dir: ${root}\n${ports}${yaml}`);
  const openApi = async (configDirectory: string) => {
    const { config } = await loadMasterConfig(configDirectory);
    return connectMaster({ socketPath: config.socket });
  };
  return runCli(['doctor', '-c', directory, ...flags], { openApi });
}

test('doctor reports that there is no problem, and exits with 0', async (t) => {
  const { code, stdout } = await doctor(t, '');
  t.is(code, 0);
  t.regex(stdout, /^saltbridge .*, node .*; no master is running\.\nNo problem was found\.\n$/);
});

test('doctor prints each problem with place and remedy, and exits with 1', async (t) => {
  const { code, stdout } = await doctor(t, 'auto_accept: true\ntimeout: long\n');
  t.is(code, 1);
  t.regex(
    stdout,
    /^error config-problem: \S+\/master:5\n {2}The master does not start: .*\n {2}-> /m,
  );
  t.regex(stdout, /^warning auto-accept: auto_accept\n/m);
  t.true(stdout.indexOf('config-problem') < stdout.indexOf('auto-accept'));
  t.regex(stdout, /1 errors, 1 warnings\.\n$/);
});

test('doctor --json prints the report', async (t) => {
  const { code, stdout } = await doctor(t, 'auto_accept: true\n', '--json');
  t.is(code, 1);
  const report = JSON.parse(stdout);
  t.false(report.isRunning);
  t.deepEqual(
    report.findings.map(({ code: found, severity }: Record<string, string>) => [found, severity]),
    [['auto-accept', 'warning']],
  );
});

/** Creates a site whose paths are all below one directory. */
function site(t: ExecutionContext, yaml: string): { readonly root: string; readonly etc: string } {
  const root = temporaryDirectory(t);
  const etc = path.join(root, 'etc');
  mkdirSync(etc);
  const trees = 'file_roots: {}\npillar_roots: {}\n';
  writeFileSync(path.join(etc, 'master'), `root_dir: ${root}\n${trees}${yaml}`);
  return { root, etc };
}

const used = `timeout: 7
master_tops: {cobbler: {}}
worker_threads: 4
reactor:
  - 'my/deploy/*': [/srv/reactor/deploy.sls]
  - salt/minion/*/start: [/srv/reactor/start.sls]
`;

test('migrate check prints what is refused, ignored and honoured, and exits with 1', async (t) => {
  const { root, etc } = site(t, used);
  const { code, stdout } = await runCli(['migrate', 'check', etc]);
  t.is(code, 1);
  const report = stdout.replaceAll(root, '/ROOT');
  for (const part of [
    /^Refused: .*\n\n(?:.*\n)*? {2}master_tops \(\/ROOT\/etc\/master:5\)\n {4}.*\n {4}-> /m,
    /^Ignored: .*\n\n(?:.*\n)*? {2}worker_threads \(\/ROOT\/etc\/master:6\)/m,
    /^Honoured: .*\n\n(?:.*\n)*? {2}timeout \(\/ROOT\/etc\/master:4\)/m,
    /^ {6}- tag: "my\/deploy\/\*"$/m,
    /\d+ honoured, \d+ ignored, \d+ refused\. Nothing was changed\.\n$/,
  ]) {
    t.regex(report, part);
  }
});

test('migrate check exits with 0 if nothing is refused', async (t) => {
  const { etc } = site(t, 'timeout: 7\n');
  const { code, stdout } = await runCli(['migrate', 'check', etc, '--json']);
  t.is(code, 0);
  const { counts, signals } = JSON.parse(stdout);
  t.is(counts.refused, 0);
  t.deepEqual(signals.rules, []);
});

test('migrate check --policy writes a new file, and replaces none', async (t) => {
  const { root, etc } = site(t, used);
  const file = path.join(root, 'signals.conf');
  const first = await runCli(['migrate', 'check', etc, '--policy', file]);
  t.false(first.stdout.includes('- tag:'));
  t.regex(readFileSync(file, 'utf8'), /- tag: "my\/deploy\/\*"/);
  const again = await runCli(['migrate', 'check', etc, '--policy', file]);
  t.is(again.code, 73);
});

test('migrate check --policy does not write into the checked directory', async (t) => {
  const { root, etc } = site(t, used);
  mkdirSync(path.join(etc, 'master.d'));
  symlinkSync(path.join(etc, 'master.d'), path.join(root, 'link'));
  for (const file of [
    path.join(etc, 'x'),
    path.join(etc, 'master.d/x'),
    path.join(root, 'link/x'),
  ]) {
    const { code, stdout } = await runCli(['migrate', 'check', etc, '--policy', file]);
    t.is(code, 64, file);
    t.is(stdout, '');
    t.false(existsSync(file));
  }
});

test('names from files cannot control a terminal', async (t) => {
  const { etc } = site(t, '"evil\\e[2J": 1\nreactor: [{"my\\u202etag": [x]}]\n');
  const { stdout } = await runCli(['migrate', 'check', etc]);
  t.false(stdout.includes('\x1b'));
  t.false(stdout.includes('\u202e'));
  t.true(stdout.includes('evil\\x1b[2J'));
});

test('migrate check --write writes one file for master.d, which the readers of the main file can read, and replaces none', async (t) => {
  const { root, etc } = site(t, '');
  const sls = path.join(root, 'start.sls');
  writeFileSync(
    sls,
    "go:\n  local.state.apply:\n    - tgt: 'web*'\nx:\n  local.test.ping:\n    - tgt: {{ data.id }}\n",
  );
  writeFileSync(path.join(etc, 'master'), `file_roots: {}\nreactor: [{'my/tag': [${sls}]}]\n`);
  mkdirSync(path.join(etc, 'master.d'));
  const file = path.join(etc, 'master.d/policy.conf');
  const main = path.join(etc, 'master');
  chmodSync(main, 0o640);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(main, 12, 34);
  const first = await runCli(['migrate', 'check', etc, '--write', file]);
  t.regex(first.stdout, /takes its target from a template/);
  t.is(statSync(file).mode & 0o777, 0o640);
  if (isRoot) t.like(statSync(file), { uid: 12, gid: 34 });
  const text = readFileSync(file, 'utf8');
  t.regex(text, /^# not derivable: .*start\.sls: x: takes its target from a template$/m);
  t.regex(text, /^ {6}- tag: "my\/tag"$/m);
  const { config } = await loadMasterConfig(etc);
  t.like(config.acl.rules, [
    {
      subject: { service: `reaction:${sls}` },
      action: 'publish',
      resource: { fun: ['state.apply'], within: 'web*' },
    },
  ]);
  t.is((await runCli(['migrate', 'check', etc, '--write', file])).code, 73);
  t.is(readFileSync(file, 'utf8'), text);
});

const jid = '20240102030405123456';
const publishedAt = Date.UTC(2024, 0, 2, 3, 4, 5);

const deliveries: Delivery[] = [
  { minion: 'm1', state: 'answered', receivedAt: publishedAt + 1000 },
  { minion: 'm2', state: 'failed', receivedAt: publishedAt + 60_000 },
  { minion: 'm3', state: 'running' },
  { minion: 'web\x1b4', state: 'silent', reason: 'never-heard' },
  { minion: 'm5', state: 'silent', reason: 'not-heard-since', lastHeardAt: publishedAt - 5000 },
  { minion: 'm6', state: 'silent', reason: 'key-not-accepted' },
  { minion: 'm7', state: 'silent', reason: 'queue-full' },
  { minion: 'm8', state: 'silent', reason: 'no-return', lastHeardAt: publishedAt + 5000 },
];

const report: JobReport = {
  jid,
  fun: ['test.ping', 'cmd.run'],
  arg: [[], ['id']],
  tgt: ['m1', 'm2'],
  tgtType: 'list',
  user: 'root',
  publishedAt,
  selfMade: false,
  counts: { answered: 1, failed: 1, running: 1, waiting: 0, reconnecting: 0, silent: 5 },
  deliveries,
  returns: [
    {
      minion: 'm1',
      fun: 'test.ping',
      return: 2n ** 60n,
      retcode: 0,
      success: true,
      receivedAt: publishedAt + 1000,
    },
  ],
};

const shown = [
  `jid        ${jid}`,
  'function   test.ping,cmd.run',
  'target     m1,m2 (list)',
  'user       root',
  'published  2024-01-02T03:04:05.000Z',
  'minions    1 answered, 1 failed, 1 running, 5 silent',
  '  m1        answered  2024-01-02T03:04:06.000Z',
  '  m2        failed    2024-01-02T03:05:05.000Z',
  '  m3        running',
  '  web\\x1b4  silent    no request from the minion since the master started',
  '  m5        silent    no request from the minion since the job was published; last request 2024-01-02T03:04:00.000Z',
  '  m6        silent    the key of the minion is not accepted',
  '  m7        silent    the minion may have missed the job: the queue of its connection was full',
  '  m8        silent    the minion sent requests after the job, but no return; last request 2024-01-02T03:04:10.000Z',
  '',
].join('\n');

const ownReport: JobReport = { ...report, selfMade: true, user: 'alice' };

const master = {
  jobs: {
    show: async () => report,
    list: async () => [report, { ...report, fun: 'test.ping', tgt: '*', tgtType: 'glob' }],
  },
};

test('a job is printed with a line for each minion, and its returns', async (t) => {
  const { stdout } = await runCli(['jobs', 'show', jid], { master });
  t.is(stdout, `${shown}\nm1:\n    1152921504606846976\n`);
});

test('returns are omitted, or printed by another outputter', async (t) => {
  t.is((await runCli(['jobs', 'show', jid, '--no-returns'], { master })).stdout, shown);
  const { stdout } = await runCli(['jobs', 'show', jid, '--out=txt'], { master });
  t.is(stdout, `${shown}\nm1: 1152921504606846976\n`);
});

test('--json has the whole report', async (t) => {
  const { stdout } = await runCli(['jobs', 'show', jid, '--json'], { master });
  const parsed = JSON.parse(stdout);
  t.deepEqual(parsed.deliveries, deliveries);
  t.deepEqual(parsed.counts, report.counts);
  t.is(parsed.returns[0].minion, 'm1');
});

test('jobs are listed one per line', async (t) => {
  const { stdout } = await runCli(['jobs', 'list'], { master });
  const counts = '1 answered, 1 failed, 1 running, 5 silent';
  t.deepEqual(stdout.split('\n'), [
    `${jid}  test.ping,cmd.run on m1,m2 (list) by root: ${counts}`,
    `${jid}  test.ping on * by root: ${counts}`,
    '',
  ]);
});

test('a job that a minion started is not attributed to a user', async (t) => {
  const own = { jobs: { show: async () => ownReport, list: async () => [ownReport] } };
  const list = await runCli(['jobs', 'list'], { master: own });
  t.regex(list.stdout, /by the minion itself:/);
  t.notRegex(list.stdout, /alice/);
  const { stdout } = await runCli(['jobs', 'show', jid], { master: own });
  t.regex(stdout, /^user {7}alice \(reported by the minion, not verified\)$/m);
});

test('the absence of jobs is reported on standard error', async (t) => {
  const outcome = await runCli(['jobs', 'list'], { master: { jobs: { list: async () => [] } } });
  t.deepEqual([outcome.stdout, outcome.stderr, outcome.code], ['', 'No job is stored.\n', 0]);
});

const events: MasterEvent[] = [
  { tag: 'salt/auth', data: { id: 'm1', act: 'accept', n: [1, null] } },
  { tag: 'bad\n\x1b[2J', data: { text: 'a\nb\x1b' } },
  { tag: 'salt/key', data: {} },
];

function masterWithEvents(requests: (EventsRequest | undefined)[] = []) {
  return {
    events: {
      subscribe: async (request?: EventsRequest) => {
        requests.push(request);
        return streamOf(...events);
      },
    },
  };
}

test('events are printed as salt-run state.event prints them', async (t) => {
  const { code, stdout } = await runCli(['events'], { master: masterWithEvents() });
  t.is(
    stdout,
    'salt/auth\t{"id": "m1", "act": "accept", "n": [1, null]}\n' +
      'bad\\n\\x1b[2J\t{"text": "a\\nb\\u001b"}\nsalt/key\t{}\n',
  );
  t.is(code, 0);
});

test('--json prints one object per line', async (t) => {
  const { stdout } = await runCli(['events', '--json'], { master: masterWithEvents() });
  const lines = stdout.trimEnd().split('\n');
  t.deepEqual(
    lines.map((line) => JSON.parse(line)),
    events.map(({ tag, data }) => ({ tag, data })),
  );
});

test('--count ends the command after that many events', async (t) => {
  const { stdout } = await runCli(['events', '--count', '2'], { master: masterWithEvents() });
  t.is(stdout.trimEnd().split('\n').length, 2);
  t.is((await runCli(['events', '--count', '0'], { master: masterWithEvents() })).code, 64);
});

test('the pattern is passed to the master', async (t) => {
  const requests: (EventsRequest | undefined)[] = [];
  await runCli(['events', 'salt/job/*'], { master: masterWithEvents(requests) });
  await runCli(['events'], { master: masterWithEvents(requests) });
  t.deepEqual(requests, [{ match: 'salt/job/*' }, {}]);
});

test('Ctrl-C ends without an error', async (t) => {
  const controller = new AbortController();
  async function* subscribe(): AsyncGenerator<MasterEvent, void, void> {
    yield* events;
    controller.abort();
    throw new Error('the connection was given up');
  }
  const { code, stderr } = await runCli(['events'], {
    interruption: controller.signal,
    master: { events: { subscribe: async () => subscribe() } },
  });
  t.is(stderr, '');
  t.is(code, 0);
});

test('a closed pipe ends the command without a message', async (t) => {
  class ClosedPipe extends Writable {
    readonly text = '';
    override _write(_chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
      process.nextTick(done, Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    }
  }
  const stdout = new ClosedPipe({ highWaterMark: 1 });
  stdout.on('error', () => {});
  const { code, stderr } = await runCli(['events'], { master: masterWithEvents(), stdout });
  t.is(stderr, '');
  t.is(code, 0);
});

test('a value of a pillar is printed by its path', async (t) => {
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

test('a missing pillar key is reported, and is a failure', async (t) => {
  const master = { pillar: { show: async () => ({ a: 1 }) } };
  const result = await runCli(['pillar', 'show', 'web1', 'a:b'], { master });
  t.is(result.stdout, '');
  t.is(result.code, 1);
  t.regex(result.stderr, /No value has this key/);
});

test('pillar explain names files and lines, and reports a dependence on grains', async (t) => {
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
    '3 more files set this value, but the files above override them.\nbase: a.sls:7 (a)\n    y\nbase: b/init.sls (b)\n    x\nThe value depends on grains, which the minion reports about itself.\nValue:\n    x\n',
  );
});

test('the inputs of pillars are listed with their grains', async (t) => {
  const grains = [
    { grain: 'role', values: 3, pillars: 12, isShared: true },
    { grain: 'id', values: 2, pillars: 2, isShared: false },
  ];
  const master = { pillar: { inputs: async () => ({ shared: 12, own: 2, grains }) } };
  const { stdout } = await runCli(['pillar', 'inputs'], { master });
  t.is(
    stdout,
    'Shared pillars: 12\nPillars of one minion: 2\nGrains on which they depend:\n  role: 3 values in 12 pillars\n  id: 2 values in 2 pillars; these pillars are not shared\n',
  );
  const json = await runCli(['pillar', 'inputs', '--json'], { master });
  t.deepEqual(JSON.parse(json.stdout), { shared: 12, own: 2, grains });
});

test('pillar diff prints old and new values', async (t) => {
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

const puppet: ReactionInfo = {
  ...reaction('puppet', {
    on: 'infra/puppet/requested',
    from: 'jenkins-*',
    do: { run: { fun: 'puppet.run', target: 'web*', kwargs: { env: { from: 'data.env' } } } },
    throttleSeconds: 60,
    throttleKey: ['data.env'],
  }),
  origin: { file: '/etc/salt/master', line: 7 },
  waiting: 3,
  running: 1,
};
const look: ReactionInfo = {
  ...reaction('look', { on: 'a/b', do: { runner: { fun: 'manage.present' } } }),
  waiting: 0,
  running: 0,
};
const runs: readonly ReactionRun[] = [
  {
    jid: '20240102030405123456',
    reaction: 'puppet',
    tag: 'infra/\x1b[2J',
    sender: 'jenkins-1',
    kind: 'run',
    fun: 'puppet.run',
    state: 'denied',
    queuedAt: Date.UTC(2024, 0, 2, 3, 4, 5),
    endedAt: Date.UTC(2024, 0, 2, 3, 4, 6),
    reason: 'no rule\nat all',
  },
];

test('reactions are listed with their tags and actions', async (t) => {
  const master = { reactions: { list: async () => [puppet, look] } };
  const { stdout } = await runCli(['reactions', 'list'], { master });
  t.is(
    stdout,
    'puppet: infra/puppet/requested -> puppet.run (1 running, 3 waiting)\n' +
      'look: a/b -> runner manage.present (0 running, 0 waiting)\n',
  );
  const json = await runCli(['reactions', 'list', '--json'], { master });
  t.deepEqual(JSON.parse(json.stdout), JSON.parse(JSON.stringify([puppet, look])));
});

test('a reaction is printed with its limits and its subject in the policy', async (t) => {
  const master = { reactions: { show: async () => puppet } };
  const { stdout } = await runCli(['reactions', 'show', 'puppet'], { master });
  t.deepEqual(stdout.trimEnd().split('\n'), [
    'reaction        puppet',
    'written         /etc/salt/master:7',
    'on              infra/puppet/requested',
    'from            jenkins-*',
    'do              {"run":{"fun":"puppet.run","target":"web*","kwargs":{"env":{"from":"data.env"}}}}',
    'throttle        60 s by data.env',
    'max concurrent  1 (1 running)',
    'queue           100 (3 waiting)',
    'timeout         300 s',
    'rate            60/minute',
    'subject         service:reaction:puppet',
  ]);
});

test('an unknown reaction is a usage error', async (t) => {
  const show = async (): Promise<never> => {
    throw new MasterError('ERR_REACTION_UNKNOWN', 'there is no reaction of this name');
  };
  t.is((await runCli(['reactions', 'show', 'x'], { master: { reactions: { show } } })).code, 64);
});

test('runs are listed one per line, with control characters escaped', async (t) => {
  const asked: unknown[] = [];
  const master = {
    reactions: {
      runs: async (request: unknown) => {
        asked.push(request);
        return runs;
      },
    },
  };
  const { stdout } = await runCli(['reactions', 'runs', 'puppet', '--limit', '5'], { master });
  t.is(
    stdout,
    '2024-01-02T03:04:05.000Z 20240102030405123456 denied puppet: puppet.run on infra/\\x1b[2J from jenkins-1: no rule\\nat all\n',
  );
  t.deepEqual(asked, [{ reaction: 'puppet', limit: 5 }]);
  t.is((await runCli(['reactions', 'runs', '--limit', 'x'], { master })).code, 64);
});
