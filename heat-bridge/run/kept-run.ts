/** What is kept of a run of a command under its key. */
import type { CommandOutcome } from './request.ts';

/** A run. */
export interface KeptRun {
  /** Of its first job. */
  readonly id: string;
  /** Of the parameters and the target. */
  readonly digest: string;
  readonly minions: readonly string[];
  /** Milliseconds since 1970. */
  readonly begunAt: number;
  /** Milliseconds since 1970. */
  readonly deadline: number;
  /** Where its minions find what is secret; see {@link RunSecrets}. */
  readonly secrets: string;
  /** Absent: it was not over when the master ended. */
  readonly outcome?: CommandOutcome;
}

/** Without what was returned, where that is too much. */
export function shortenRun({ outcome, ...run }: KeptRun): KeptRun {
  if (outcome === undefined) return run;
  const results = outcome.results.map(({ return: _, ...rest }) => rest);
  return { ...run, outcome: { ...outcome, results } };
}
