import test from 'ava';
import type { Delivery, JobReport } from '../../master/index.ts';
import { runCli } from './run-cli.ts';

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
  '  web\\x1b4  silent    not heard since the master started',
  '  m5        silent    not heard since the job was published; last heard 2024-01-02T03:04:00.000Z',
  '  m6        silent    its key is not accepted',
  '  m7        silent    perhaps skipped: the queue of a subscriber was full',
  '  m8        silent    heard since, but it returned nothing; last heard 2024-01-02T03:04:10.000Z',
  '',
].join('\n');

const master = {
  jobs: {
    show: async () => report,
    list: async () => [report, { ...report, fun: 'test.ping', tgt: '*', tgtType: 'glob' }],
  },
};

test('a job is shown with a line for each minion, and what came back', async (t) => {
  const { stdout } = await runCli(['jobs', 'show', jid], { master });
  t.is(stdout, `${shown}\nm1:\n    1152921504606846976\n`);
});

test('returns are left out, or printed by another outputter', async (t) => {
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

test('jobs are listed one a line', async (t) => {
  const { stdout } = await runCli(['jobs', 'list'], { master });
  const counts = '1 answered, 1 failed, 1 running, 5 silent';
  t.deepEqual(stdout.split('\n'), [
    `${jid}  test.ping,cmd.run on m1,m2 (list) by root: ${counts}`,
    `${jid}  test.ping on * by root: ${counts}`,
    '',
  ]);
});

test('no job at all is told on stderr', async (t) => {
  const outcome = await runCli(['jobs', 'list'], { master: { jobs: { list: async () => [] } } });
  t.deepEqual([outcome.stdout, outcome.stderr, outcome.code], ['', 'No job is kept.\n', 0]);
});
