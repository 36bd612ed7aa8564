/**
 * Recovers runs that an earlier process of the master started, from the store and the job cache.
 */

import Type from 'typebox';
import { type ExtensionHost, type JobReport, MasterError } from '#master';
import { defineRow, type RowCodec, type RowOf, Texts } from '#store';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import type { CompiledCommand } from './command-catalog.ts';
import { commandResultOf, completedStatus } from './command-execution.ts';
import type { CommandOutcome, CommandResult } from './command-request.ts';
import { type LeftOut, outcomeWithoutReturns, unaddressedResults } from './command-run.ts';
import type { LostKeys } from './lost-keys.ts';

/** Encrypted rows `keys/<digest>` of commands: one row for each idempotency key. */
const row = defineRow({
  name: 'run of a command',
  schema: Type.Object({
    /** Id of the run, which is the id of its first job. */
    id: Type.String(),
    /** Digest of the parameters and the target. */
    digest: Type.String(),
    minions: Texts,
    /**
     * Ids in the target that do not receive the command, and whether the caller's rights excluded
     * minions. Absent if all minions of the target receive it.
     */
    leftOut: Type.Optional(Type.Unsafe<LeftOut>(Type.Object({}))),
    /** Time at which the run started, in milliseconds since 1970. */
    begunAt: Type.Number(),
    /** Deadline, in milliseconds since 1970. */
    deadline: Type.Number(),
    /** Reference to the run's secrets: their key in the pillar of the minions. */
    secrets: Type.String(),
    /** Outcome. Absent if the run has not ended. */
    outcome: Type.Optional(Type.Unsafe<CommandOutcome>(Type.Object({}))),
  }),
  packed: { outcome: markedJsonField },
  unversioned: fromMarkedJson,
});

/** Run in the form in which it is stored under its idempotency key. */
export type StoredRun = RowOf<typeof row>;

export const storedRunRow: RowCodec<StoredRun> = row;

/** Removes the minions' returns from a stored run, so that its row becomes smaller. */
export function withoutReturns({ outcome, ...run }: StoredRun): StoredRun {
  if (outcome === undefined) return run;
  return { ...run, outcome: outcomeWithoutReturns(outcome) };
}

/** Run that can be continued by following its job. */
interface OpenRun {
  /** Results of the minions that have returned. */
  readonly known: ReadonlyMap<string, CommandResult>;
}

/**
 * Determines the state of a stored run from the store and the job cache. If the job cache may have
 * lost the job, for example because the run is too old, never returns `unpublished`. Otherwise, the
 * caller could run the command a second time.
 * @returns the outcome, if the run has ended or cannot be continued. `unpublished`, if the job of
 * the run was never published. An {@link OpenRun}, if the run can be continued
 */
export async function recoverRun(
  host: Pick<ExtensionHost, 'config' | 'master' | 'now' | 'reloadable'>,
  command: CompiledCommand,
  stored: StoredRun,
  lostKeys: Pick<LostKeys, 'isOfNextMachine'>,
): Promise<'unpublished' | OpenRun | CommandOutcome> {
  if (stored.outcome !== undefined) return stored.outcome;
  const job = await findJob(host, stored.id);
  if (job === undefined && isWithinJobCache(host, stored)) return 'unpublished';
  const own = job?.returns.filter(
    (one) => one.resource === undefined && !lostKeys.isOfNextMachine(one, stored.begunAt),
  );
  const known = new Map(own?.map((one) => [one.minion, commandResultOf(command, one)]));
  const results = stored.minions.map((minion): CommandResult => {
    const lost = {
      minion,
      state: 'unfinished',
      reason: 'the master ended before the minion returned',
    } as const;
    return known.get(minion) ?? lost;
  });
  const { leftOut } = stored;
  const all = leftOut === undefined ? results : [...results, ...unaddressedResults(leftOut)];
  const over = completedStatus(all);
  const mayGoOn = job !== undefined && host.now() < stored.deadline;
  const isFinal = over === 'succeeded' || (over === 'failed' && !isRetried(command));
  if (mayGoOn && !isFinal) return { known };
  const { id } = stored;
  const status = over ?? ('interrupted' as const);
  const narrowed = leftOut?.isNarrowed === true ? ({ isNarrowed: true } as const) : {};
  const { name } = command.definition;
  return { id, command: name, status, results: all, jids: [id], ...narrowed };
}

/** Returns a job in the job cache, or `undefined` if it is not there. */
export async function findJob(
  { master }: Pick<ExtensionHost, 'master'>,
  jid: string,
): Promise<JobReport | undefined> {
  try {
    return await master().jobs.show(jid);
  } catch (error) {
    if (error instanceof MasterError && error.code === 'ERR_JOB_UNKNOWN') return undefined;
    throw error;
  }
}

function isWithinJobCache(
  { config, now, reloadable }: Pick<ExtensionHost, 'config' | 'now' | 'reloadable'>,
  { begunAt }: StoredRun,
): boolean {
  return config.jobCache && now() - begunAt < reloadable().keepJobsSeconds * 1000;
}

function isRetried({ definition }: CompiledCommand): boolean {
  return definition.idempotent === true && (definition.retries ?? 0) > 0;
}
