/**
 * Idempotency keys: written before anything is published, so that the same request again is the
 * same run, also after a crash. A key belongs to a caller, a project and a command.
 */
import { createHash } from 'node:crypto';
import { fromJson, type StateArea, StoreError, toJson } from '../../master/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';
import { BridgeError } from '../errors.ts';
import type { CommandOutcome } from './request.ts';

/** Whose key it is, and for what. */
export interface KeyOwner {
  readonly caller: string;
  readonly project: string;
  readonly command: string;
  readonly key: string;
}

/** What is kept of a run. */
export interface KeptRun {
  /** Of its first job. */
  readonly id: string;
  /** Of the parameters and the target. */
  readonly digest: string;
  readonly minions: readonly string[];
  /** Milliseconds since 1970. */
  readonly begunAt: number;
  /** Absent: it was not over when the master ended. */
  readonly outcome?: CommandOutcome;
}

/** How long a key is kept after its deadline, milliseconds. */
const keepMs = 86_400_000;
const maxOutcomeBytes = 1_048_576;

/** Keys of runs in the store, sealed. */
export class RunKeys {
  readonly #state: StateArea;

  constructor(state: StateArea) {
    this.#state = state;
  }

  /** @throws BridgeError ERR_COMMAND_KEY where it was used for something else */
  async find(owner: KeyOwner, digest: string): Promise<KeptRun | undefined> {
    const entry = await this.#state.get(rowOf(owner));
    if (entry === undefined) return undefined;
    const kept = this.#read(entry.value);
    if (kept.digest === digest) return kept;
    const text = 'the idempotency key was used before, for other parameters or another target';
    throw new BridgeError('ERR_COMMAND_KEY', `${owner.command}: ${text}`);
  }

  /**
   * Durable when it resolves.
   * @param deadline milliseconds since 1970
   * @returns false where there is one already
   */
  async add(owner: KeyOwner, run: KeptRun, deadline: number): Promise<boolean> {
    try {
      await this.#put(owner, run, deadline, { ifRevision: 0 });
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_REVISION') return false;
      throw error;
    }
  }

  /** Keeps what became of a run; of a large one only that it was. */
  async end(owner: KeyOwner, run: KeptRun, deadline: number): Promise<void> {
    await this.#put(owner, run, deadline, {});
  }

  async #put(
    owner: KeyOwner,
    run: KeptRun,
    deadline: number,
    condition: { readonly ifRevision?: number },
  ): Promise<void> {
    const value = this.#state.seal(bytesOf(run));
    const expiresAt = deadline + keepMs;
    await this.#state.write([{ op: 'put', key: rowOf(owner), value, expiresAt, ...condition }]);
  }

  #read(sealed: Uint8Array): KeptRun {
    const text = Buffer.from(this.#state.unseal(sealed)).toString('utf8');
    return fromJson(JSON.parse(text)) as unknown as KeptRun; // written below
  }
}

function bytesOf(run: KeptRun): Buffer {
  const bytes = Buffer.from(JSON.stringify(toJson({ ...run } as unknown as WireValue)));
  if (bytes.length <= maxOutcomeBytes || run.outcome === undefined) return bytes;
  const { results } = run.outcome;
  const short = results.map(({ return: _, ...rest }) => rest);
  return bytesOf({ ...run, outcome: { ...run.outcome, results: short } });
}

function rowOf({ caller, project, command, key }: KeyOwner): readonly string[] {
  return ['keys', digestOf([caller, project, command, key])];
}

/** Of JSON, whatever the order of its keys. */
export function digestOf(value: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(value)))
    .digest('hex');
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, inner]) => [key, sorted(inner)]);
}
