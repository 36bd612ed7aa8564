/**
 * Kills a master with SIGKILL at random moments (from a seed) while minions send signals. One in
 * five requests to the receiving endpoint fails. This process compares the acknowledged and
 * permitted signals with those that arrived.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readAuditLog } from '#master';
import { createRandom } from '../crash/setting.ts';
import type { SwarmMinion } from '../swarm/minion.ts';
import { type RecordingEndpoint, startEndpoint } from './endpoint.ts';
import { type Emitted, judge, type Permitted, type Verdict } from './judge.ts';
import { emit, openSetting, type Setting } from './setting.ts';

export interface SignalCrashOptions {
  readonly kills: number;
  readonly seed: number;
  readonly minions: number;
  /** Total number of signals. */
  readonly signals: number;
  /** Called after each kill, with the number of kills so far. */
  readonly onKill?: (done: number) => void;
}

/** Result of a series of kills. All figures of {@link Verdict} must be 0. */
export interface SignalCrashFigures extends Verdict {
  readonly kills: number;
  readonly acknowledged: number;
  /** Number of lines in the audit log that permit a signal. */
  readonly permitted: number;
  /**
   * Number of arrivals of signals. It is higher than the number of acknowledged signals, because
   * failed deliveries are repeated.
   */
  readonly arrivals: number;
  /** Number of requests that the endpoint answered with a failure on purpose. */
  readonly harmed: number;
  /** Number of signals in the dead-letter list. Must be 0. */
  readonly dead: number;
}

const handles = ['h0', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'h7'];
const longestLifeMs = 500;
const drainMs = 120_000;

export async function benchSignalCrash(options: SignalCrashOptions): Promise<SignalCrashFigures> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-signals-'));
  const random = createRandom(options.seed);
  const endpoint = await startEndpoint(random);
  const { origin } = endpoint;
  const setting = await openSetting({ rootDir, minions: options.minions, handles, origin });
  const trial = new Trial(setting, endpoint, { ...options, rootDir });
  try {
    return await trial.run(random);
  } finally {
    trial.stop();
    await setting.master.kill();
    await endpoint.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

interface TrialOptions extends SignalCrashOptions {
  readonly rootDir: string;
}

class Trial {
  readonly #setting: Setting;
  readonly #endpoint: RecordingEndpoint;
  readonly #options: TrialOptions;
  readonly #emitted: Emitted[] = [];
  /** Number of signals that may have been sent so far. Each kill adds a part of the total. */
  #allowed = 0;
  #begun = 0;
  #isOver = false;
  #resolveLoad: () => void = () => {};

  constructor(setting: Setting, endpoint: RecordingEndpoint, options: TrialOptions) {
    this.#setting = setting;
    this.#endpoint = endpoint;
    this.#options = options;
  }

  async run(random: () => number): Promise<SignalCrashFigures> {
    const { kills, signals } = this.#options;
    const { master, minions } = this.#setting;
    const emitting = minions.map((minion, index) => this.#emitAll(minion, index));
    for (let kill = 1; kill <= kills; kill += 1) {
      const isUnderLoad = this.#underLoad();
      this.#allowed = Math.ceil((signals * kill) / kills);
      await isUnderLoad;
      await sleep(random() * longestLifeMs);
      await master.kill();
      master.spawn();
      await master.ready();
      this.#options.onKill?.(kill);
    }
    await Promise.all(emitting);
    await this.#drain();
    const permitted = await readPermitted(this.#options.rootDir);
    return {
      kills,
      acknowledged: this.#emitted.filter(({ isAcknowledged }) => isAcknowledged).length,
      permitted: permitted.length,
      arrivals: this.#endpoint.arrivals.length,
      harmed: this.#endpoint.harmed,
      dead: await this.#count({ isDead: true }),
      ...judge(this.#emitted, this.#endpoint.arrivals, permitted),
    };
  }

  stop(): void {
    this.#isOver = true;
  }

  /** Sends signals to all handles, one after the other, as long as there are signals left. */
  async #emitAll(minion: SwarmMinion, offset: number): Promise<void> {
    for (let number = 0; this.#begun < this.#options.signals && !this.#isOver; ) {
      if (this.#begun >= this.#allowed) {
        await sleep(5);
        continue;
      }
      this.#begun += 1;
      const handle = handles[(offset + number) % handles.length] ?? '';
      const sentAt = Date.now();
      const isAcknowledged = await emit(minion, handle, number, () => this.#isOver);
      const moments = { sentAt, endedAt: Date.now() };
      this.#emitted.push({ handle, minion: minion.id, number, ...moments, isAcknowledged });
      if (isAcknowledged) this.#resolveLoad();
      number += 1;
    }
  }

  /** Resolves when the next signal is acknowledged. A kill without load would not test anything. */
  #underLoad(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolveLoad = resolve;
    });
  }

  /** Waits until the outbox is empty. Signals that stay in it count as lost. */
  async #drain(): Promise<void> {
    const end = performance.now() + drainMs;
    while (performance.now() < end && (await this.#count({ isDead: false })) > 0) await sleep(100);
  }

  async #count(selection: { readonly isDead: boolean }): Promise<number> {
    const entries = await this.#setting.bridge.call<readonly unknown[]>('outbox.list', selection);
    return entries.length;
  }
}

/**
 * Reads the permitted signals from the audit log. Lines that only count repetitions are skipped.
 */
async function readPermitted(rootDir: string): Promise<Permitted[]> {
  const permitted: Permitted[] = [];
  const log = { stateDir: path.join(rootDir, 'state') };
  const wanted = { action: 'signal', outcome: 'permitted' };
  for await (const { who, what = '', time, count } of readAuditLog(log, wanted)) {
    const [, handle = ''] = what.split('/');
    if (count === undefined) permitted.push({ handle, minion: who.name, at: Date.parse(time) });
  }
  return permitted;
}
