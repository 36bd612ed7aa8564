/**
 * An extension of the campaign's masters with writes whose effects can be counted: rows that are
 * written once, rows that are overwritten repeatedly, rows that expire, and steps under a lease.
 * The holder of the lease relies only on the store and does not check its own clock.
 */
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import {
  type ExtensionHost,
  extensionMethod,
  type MasterExtension,
  type OpenExtension,
  type SharedArea,
} from '#master';
import { codeOf } from '#runtime';
import type { Fact } from './history.ts';

/** State of the ledger on one master. */
export interface LedgerView {
  readonly names: readonly string[];
  readonly steps: readonly LedgerStep[];
}

interface LedgerStep {
  readonly number: number;
  /** Fencing token of the lease under which the step was done. */
  readonly token: number;
}

const leaseMs = 2000;
const briefMs = 2000;
const lookMs = 400;
const lanes = 4;
const lanePauseMs = 200;
/** Longest pause between two steps in milliseconds. It exceeds the lifetime of the lease. */
const longestPauseMs = 3000;
const leaseKey = ['lease'];
const counterKey = ['counter'];
const nothing = Buffer.alloc(0);

export class Ledger implements MasterExtension {
  readonly name = 'ledger';
  readonly #historyFile: string;

  /**
   * Creates the ledger.
   * @param historyFile - file for each acknowledged step
   */
  constructor(historyFile: string) {
    this.#historyFile = historyFile;
  }

  async open({ shared, closing, now }: ExtensionHost): Promise<OpenExtension> {
    const put = async (name: string): Promise<void> => {
      await shared.write([
        { op: 'put', key: ['once', name], value: nothing, ifRevision: 0 },
        { op: 'put', key: ['brief', name], value: nothing, expiresAt: now() + briefMs },
      ]);
    };
    const parameters = Type.Object({ name: Type.String() });
    let working: Promise<unknown> = Promise.resolve();
    return {
      rpc: {
        put: extensionMethod({ parameters, call: async (_master, { name }) => put(name) }),
        view: extensionMethod({ parameters: Type.Object({}), call: () => viewOf(shared) }),
      },
      start: () => {
        const writing = Array.from({ length: lanes }, () => this.#overwrite(shared, closing));
        working = Promise.all([this.#step(shared, now, closing), ...writing]);
      },
      close: async () => void (await working),
    };
  }

  /**
   * Overwrites one row repeatedly. A write that took effect twice would restore an old value. If
   * the result of a write is unknown, continues with another row.
   */
  async #overwrite(area: SharedArea, closing: AbortSignal): Promise<void> {
    while (!closing.aborted) {
      const row = randomUUID();
      const key = ['lanes', row];
      try {
        for (let expected = 0; !closing.aborted; expected += 1) {
          const kept = await area.get(key);
          const found = Number(Buffer.from(kept?.value ?? []).toString());
          if (found !== expected) this.#note({ fact: 'reverted', row, expected, found });
          if (found !== expected) break;
          await area.write([{ op: 'put', key, value: Buffer.from(String(expected + 1)) }]);
          await pauseFor(lanePauseMs, closing);
        }
      } catch (error) {
        if (codeOf(error) === undefined) throw error;
      }
      await pauseFor(lookMs, closing);
    }
  }

  #note(fact: Fact): void {
    appendFileSync(this.#historyFile, `${JSON.stringify(fact)}\n`);
  }

  /** Acquires the lease when it is free and does some steps under it, until the master closes. */
  async #step(area: SharedArea, now: () => number, closing: AbortSignal): Promise<void> {
    const member = area.cluster?.member ?? '';
    while (!closing.aborted) {
      try {
        const value = Buffer.from(member);
        const expiresAt = now() + leaseMs;
        const token = await area.write([
          { op: 'put', key: leaseKey, value, expiresAt, ifRevision: 0 },
        ]);
        for (;;) {
          const number = (await lastOf(area)) + 1;
          await pauseFor(Math.random() ** 3 * longestPauseMs, closing);
          if (closing.aborted) return;
          const row = Buffer.from(JSON.stringify({ number, token } satisfies LedgerStep));
          await area.write([
            { op: 'require', key: leaseKey, ifRevision: token },
            { op: 'put', key: counterKey, value: row },
            { op: 'put', key: ['steps', String(number).padStart(9, '0')], value: row },
          ]);
          this.#note({ fact: 'step', number, token, member });
        }
      } catch (error) {
        // Another member has the lease, or the log does not answer.
        if (codeOf(error) === undefined) throw error;
      }
      await pauseFor(lookMs, closing);
    }
  }
}

function pauseFor(ms: number, closing: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal: closing, ref: false }).catch(() => {});
}

async function lastOf(area: SharedArea): Promise<number> {
  const row = await area.get(counterKey);
  return row === undefined ? 0 : stepOf(row.value).number;
}

function stepOf(value: Uint8Array): LedgerStep {
  return JSON.parse(Buffer.from(value).toString());
}

async function viewOf(area: SharedArea): Promise<LedgerView> {
  const names: string[] = [];
  for await (const { key } of area.list(['once'])) names.push(String(key.at(-1)));
  const steps: LedgerStep[] = [];
  for await (const { value } of area.list(['steps'])) steps.push(stepOf(value));
  return { names, steps };
}
