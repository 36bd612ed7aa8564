/** Recorded commands of Salt's own programs with their jobs, and a master that replays the jobs. */
import { fromJson, type JobUpdate, type RunRequest } from '#master';
import { runBatch } from '#master/jobs/batch.ts';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import type { FakeMaster } from './run-cli.ts';

/** A job of a recorded command. */
export interface RecordedJob {
  readonly jid: string;
  readonly fun: string | readonly string[];
  readonly arg: readonly unknown[];
  readonly minions: readonly string[];
  readonly missing: readonly string[];
  readonly returns: readonly unknown[];
}

/** A command as record-commands.py writes it. */
export interface RecordedCommand {
  /** Name of the program. Default: `salt`. */
  readonly program?: string;
  /** Further options of the master's configuration. */
  readonly config?: Readonly<Record<string, string | boolean>>;
  readonly argv: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
  readonly jobs: readonly RecordedJob[];
}

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

/** Yields the updates that followers of a recorded job receive. */
export async function* play(job: RecordedJob | undefined): AsyncGenerator<JobUpdate, void, void> {
  const { jid = '0', minions = [], missing = [], returns = [] } = job ?? {};
  yield { type: 'published', jid, minions: [...minions].sort(), missing, skipped: 0 };
  const updates = returns.map((recorded) => toUpdate(jid, fromJson(recorded)));
  yield* updates;
  const answered = updates.flatMap((update) => (update.type === 'return' ? [update.minion] : []));
  const silent = minions.filter((minion) => !answered.includes(minion));
  if (minions.length > 0) silent.push(...missing);
  yield { type: 'finished', jid, answered, silent, reconnecting: [], deliveries: [] };
}

/** Returns a master that gives the recorded returns for each request. */
export function replay({ jobs }: RecordedCommand): FakeMaster {
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
