/** Commands of Salt's own `salt`, played again: what it printed, we print. */
import test from 'ava';
import type { JobUpdate, RunRequest } from '../../master/index.ts';
import { fromJson } from '../../master/index.ts';
import { runBatch } from '../../master/jobs/batch.ts';
import { isWireMap, type WireMap, type WireValue } from '../../minion-protocol/index.ts';
import { readCases } from './fixture.ts';
import { type FakeMaster, runCli } from './run-cli.ts';

interface RecordedJob {
  readonly jid: string;
  readonly fun: string | readonly string[];
  readonly arg: readonly unknown[];
  readonly minions: readonly string[];
  readonly missing: readonly string[];
  readonly returns: readonly unknown[];
}

interface RecordedCommand {
  readonly argv: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  readonly jobs: readonly RecordedJob[];
}

const commands = readCases<RecordedCommand>('salt-commands.json');

/** What we say on stderr that Salt leaves out, or writes to its log. */
const ours = /^(saltbridge: |\[ERROR {3}\] )/;

function toUpdate(jid: string, recorded: WireValue): JobUpdate {
  const map: WireMap = isWireMap(recorded) ? recorded : {};
  return {
    type: 'return',
    jid,
    minion: String(map.id),
    fun: String(map.fun),
    return: map.return ?? null,
    retcode: map.retcode ?? 0,
    success: map.success ?? true,
    receivedAt: 0,
    ...(typeof map.out === 'string' ? { out: map.out } : {}),
  };
}

async function* play(job: RecordedJob | undefined): AsyncGenerator<JobUpdate, void, void> {
  const { jid = '0', minions = [], missing = [], returns = [] } = job ?? {};
  yield { type: 'published', jid, minions: [...minions].sort(), missing, skipped: 0 };
  const updates = returns.map((recorded) => toUpdate(jid, fromJson(recorded)));
  yield* updates;
  const answered = updates.flatMap((update) => (update.type === 'return' ? [update.minion] : []));
  const silent = minions.filter((minion) => !answered.includes(minion));
  yield { type: 'finished', jid, answered, silent, reconnecting: [], deliveries: [] };
}

/** A master that gives to each request what the minions gave to the same one of Salt's. */
function replay({ jobs }: RecordedCommand): FakeMaster {
  const left = [...jobs];
  const take = ({ fun, tgt, tgtType }: RunRequest): RecordedJob | undefined => {
    const index = left.findIndex((job) => {
      const isSameFun = JSON.stringify(job.fun) === JSON.stringify(fun);
      return isSameFun && (tgtType !== 'list' || job.minions.every((id) => tgt.includes(id)));
    });
    return index < 0 ? undefined : left.splice(index, 1)[0];
  };
  const run = (request: RunRequest): AsyncIterable<JobUpdate> => play(take(request));
  return {
    jobs: {
      run,
      plan: async () => ({
        tgt: '*',
        tgtType: 'glob',
        minions: (jobs[0]?.minions ?? []).map((id) => ({ id, reason: 'matched', by: [id] })),
      }),
      batch: (request, signal) => runBatch(run, request, signal),
      publish: async (request) => {
        const { jid = '', minions = [], missing = [] } = take(request) ?? {};
        return { jid, minions, missing, skipped: 0 };
      },
    },
  };
}

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
