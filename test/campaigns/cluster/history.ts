/**
 * Histories of callers, minions and members. Each records its own actions and results as lines of
 * JSON.
 */
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import path from 'node:path';

/** Result of a write. `unknown`: it may have taken effect. */
export type Outcome = 'kept' | 'refused' | 'unknown';

/** A recorded fact. Times are in milliseconds since 1970, on the clock of the campaign. */
export type Fact =
  /** A caller published a job with a jid that it had chosen. */
  | {
      readonly fact: 'job';
      readonly jid: string;
      readonly minion: string;
      readonly outcome: Outcome;
      readonly code?: string;
      readonly by: string;
      readonly from: number;
      readonly to: number;
    }
  /** A minion ran a job. A job that belongs to a run of the bridge has the run's key. */
  | { readonly fact: 'ran'; readonly jid: string; readonly minion: string; readonly key?: string }
  /** The return of a minion was acknowledged. */
  | {
      readonly fact: 'returned';
      readonly jid: string;
      readonly minion: string;
      readonly at: number;
    }
  | {
      readonly fact: 'signal';
      readonly handle: string;
      readonly minion: string;
      readonly number: number;
      readonly outcome: Outcome;
      readonly from: number;
      readonly to: number;
    }
  /** The service of a handle received a signal. */
  | {
      readonly fact: 'arrived';
      readonly handle: string;
      readonly minion: string;
      readonly number: number;
      /** Id of the signal in Heat. */
      readonly id: string;
    }
  /** The key of an id has this state from this time on; `undefined`: the state is unknown. */
  | {
      readonly fact: 'key';
      readonly id: string;
      readonly state: 'accepted' | 'rejected' | 'deleted' | undefined;
    }
  | {
      readonly fact: 'token';
      readonly token: string;
      readonly state: 'valid' | 'revoked' | undefined;
    }
  | {
      readonly fact: 'run';
      readonly key: string;
      readonly minion: string;
      readonly id: string;
      readonly status: string;
    }
  | { readonly fact: 'handle'; readonly alias: string }
  | {
      readonly fact: 'put';
      readonly name: string;
      readonly outcome: Outcome;
      readonly code?: string;
      readonly by: string;
      readonly from: number;
      readonly to: number;
    }
  /** A row of the ledger no longer has the value that its only writer has written last. */
  | {
      readonly fact: 'reverted';
      readonly row: string;
      readonly expected: number;
      readonly found: number;
    }
  /** The process with the ledger's lease did a step. */
  | {
      readonly fact: 'step';
      readonly number: number;
      readonly token: number;
      readonly member: string;
    };

/** Facts of one kind. */
export type FactOf<K extends Fact['fact']> = Extract<Fact, { readonly fact: K }>;

/** File with the facts of one participant. Each line is written before its next action. */
export class HistoryFile {
  readonly #file: number;

  constructor(directory: string, name: string) {
    mkdirSync(directory, { recursive: true });
    this.#file = openSync(historyFile(directory, name), 'a');
  }

  note(fact: Fact): void {
    writeSync(this.#file, `${JSON.stringify(fact)}\n`);
  }

  close(): void {
    closeSync(this.#file);
  }
}

export function historyFile(directory: string, name: string): string {
  return path.join(directory, `${name}.jsonl`);
}

/** Returns all facts in a directory. The facts of one file are in their order. */
export function readHistories(directory: string): Fact[] {
  return readdirSync(directory).flatMap((name) => {
    const lines = readFileSync(path.join(directory, name), 'utf8').split('\n');
    // The last line of a killed process may be incomplete.
    return lines.slice(0, -1).map((line): Fact => JSON.parse(line));
  });
}
