/** What callers, minions and members did and were told, as each noted it: one line of JSON a fact. */
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import path from 'node:path';

/** `unknown`: it may have taken effect. */
export type Outcome = 'kept' | 'refused' | 'unknown';

/** Moments are milliseconds since 1970, by the clock of the campaign. */
export type Fact =
  /** A caller published a job under an id that it had chosen. */
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
  /** A minion ran a job. Those of a run of the bridge have its key. */
  | { readonly fact: 'ran'; readonly jid: string; readonly minion: string; readonly key?: string }
  /** Its return was acknowledged. */
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
  /** The service that a handle leads to was told of a signal. */
  | {
      readonly fact: 'arrived';
      readonly handle: string;
      readonly minion: string;
      readonly number: number;
      /** Heat's id of the signal. */
      readonly id: string;
    }
  /** The key of an id is in this state from then on; `undefined`: nobody knows. */
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
  /** A row of the ledger is no longer what its only writer has written last. */
  | {
      readonly fact: 'reverted';
      readonly row: string;
      readonly expected: number;
      readonly found: number;
    }
  /** A holder of the ledger's lease did a step. */
  | {
      readonly fact: 'step';
      readonly number: number;
      readonly token: number;
      readonly member: string;
    };

/** Facts of one kind. */
export type FactOf<K extends Fact['fact']> = Extract<Fact, { readonly fact: K }>;

/** The file of one that notes what it does; each line is written before the next thing is done. */
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

/** All facts of a directory; those of one file stand in their order. */
export function readHistories(directory: string): Fact[] {
  return readdirSync(directory).flatMap((name) => {
    const lines = readFileSync(path.join(directory, name), 'utf8').split('\n');
    // The last one of a process that was killed may be torn.
    return lines.slice(0, -1).map((line): Fact => JSON.parse(line));
  });
}
