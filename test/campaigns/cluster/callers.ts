/**
 * Callers of the masters. Each begins at a different master, and records its requests and their
 * results.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectMaster } from '#client';
import type { MasterApi } from '#master';
import { createJidSource } from '#minion-protocol';
import { codeOf } from '#runtime';
import { Line } from '../../../bench/crash/line.ts';
import { importKey } from '../../../bench/swarm/keys.ts';
import { SwarmMinion } from '../../../bench/swarm/minion.ts';
import { HistoryFile, type Outcome } from './history.ts';
import type { MemberProcess } from './member-process.ts';
import { handles } from './minions.ts';
import { password, type Site, user } from './site.ts';

export interface CallRates {
  /** Number of jobs of all callers together, per second. */
  readonly jobs: number;
  readonly puts: number;
  readonly keys: number;
  readonly tokens: number;
  readonly runs: number;
}

/** Results of the calls so far. */
interface CallFigures {
  jobs: number;
  unknownJobs: number;
  refusedJobs: number;
  keyChanges: number;
  revocations: number;
  runs: number;
  puts: number;
}

/** Codes of errors after which nothing was done, so that the caller may try again. */
const refusals: ReadonlySet<string | undefined> = new Set([
  'ERR_CLUSTER_ALONE',
  'ERR_MASTER_DRAINING',
  'ERR_REVISION',
  'ERR_STORE_FULL',
]);
const runMs = 20_000;
const runTries = 12;
const pauseMs = 250;
const pollMs = 20;
const revocationMs = 10_000;

function outcomeOf(error: unknown): { readonly outcome: Outcome; readonly code: string } {
  const code = codeOf(error) ?? String(error);
  // The request was not sent, because the socket does not exist.
  const isUnsent = code === 'ERR_SOCKET' && Object(error).wasSent === false;
  return { outcome: refusals.has(code) || isUnsent ? 'refused' : 'unknown', code };
}

/** Returns a token with all rights. */
export async function loginAt(api: MasterApi): Promise<string> {
  return (await api.logins.login({ username: user, password, eauth: 'sharedsecret' })).token;
}

export class Callers {
  readonly figures: CallFigures = {
    jobs: 0,
    unknownJobs: 0,
    refusedJobs: 0,
    keyChanges: 0,
    revocations: 0,
    runs: 0,
    puts: 0,
  };
  /**
   * Durations of stored writes (a job, or a row of the ledger), and times until a revocation was
   * effective.
   */
  readonly waits: {
    readonly kind: 'job' | 'put' | 'revocation';
    readonly by: string;
    readonly from: number;
    readonly to: number;
  }[] = [];
  readonly #site: Site;
  readonly #token: string;
  readonly #history: HistoryFile;
  readonly #targets: readonly string[];
  readonly #running: Promise<void>[] = [];
  #isOver = false;
  /**
   * Whether keys are not deleted for now. A deletion replaces the publish key. All minions then
   * sign in again.
   */
  keepsKeys = false;

  constructor(site: Site, token: string, targets: readonly string[]) {
    this.#site = site;
    this.#token = token;
    this.#targets = targets;
    this.#history = new HistoryFile(site.histories, 'callers');
  }

  /** Registers the handles that minions signal. Resolves when they are registered. */
  async addHandles(origin: string): Promise<void> {
    const { members } = this.#site;
    for (const [index, alias] of handles.entries()) {
      const signal = { endpoint: `${origin}/${alias}`, token: 'token' };
      const registration = { alias, minions: this.#targets, signal };
      await members[index % members.length]?.bridge.call('handles.add', { registration });
      this.#history.note({ fact: 'handle', alias });
    }
  }

  start(rates: CallRates): void {
    const { members } = this.#site;
    for (const [index, member] of members.entries()) {
      const every = (perSecond: number): number => (1000 * members.length) / perSecond;
      const urls = [...this.#site.urls.slice(index), ...this.#site.urls.slice(0, index)];
      const api = connectMaster({ urls, token: this.#token });
      const nextJid = createJidSource(Date.now, `k${index}`);
      const [rotated = member] = members.slice(index);
      this.#repeat(every(rates.jobs), (count) => this.#publish(api, member, nextJid(), count), 40);
      this.#repeat(every(rates.puts), () => this.#put(rotated), 40);
      this.#repeat(every(rates.keys), (count) => this.#changeKey(api, index, count));
      this.#repeat(every(rates.tokens), () => this.#revokeToken(api));
      this.#repeat(every(rates.runs), (count) => this.#run(index, count), 10);
    }
  }

  /** Stops making calls. */
  stop(): void {
    this.#isOver = true;
  }

  /** Resolves when all calls that were begun have ended. */
  async end(): Promise<void> {
    this.stop();
    await Promise.all(this.#running);
  }

  /**
   * Repeats a call.
   * @param concurrency - maximum number of concurrent calls, which do not wait for each other
   */
  #repeat(everyMs: number, call: (count: number) => Promise<void>, concurrency = 1): void {
    const repeat = async (): Promise<void> => {
      const pending = new Set<Promise<void>>();
      for (let count = 0; !this.#isOver; count += 1) {
        const one: Promise<void> = call(count).finally(() => pending.delete(one));
        pending.add(one);
        await sleep(everyMs * (0.5 + Math.random()));
        if (pending.size >= concurrency) await Promise.race(pending);
      }
      await Promise.all(pending);
    };
    this.#running.push(repeat());
  }

  async #publish(
    api: MasterApi,
    { name: by }: MemberProcess,
    jid: string,
    count: number,
  ): Promise<void> {
    const minion = this.#targets[(count * 7 + by.charCodeAt(0)) % this.#targets.length] ?? '';
    const from = Date.now();
    const job = { fact: 'job', jid, minion, by, from } as const;
    try {
      await api.jobs.publish({ tgt: [minion], tgtType: 'list', fun: 'test.ping', jid });
      const to = Date.now();
      this.#history.note({ ...job, outcome: 'kept', to });
      this.waits.push({ kind: 'job', by, from, to });
      this.figures.jobs += 1;
    } catch (error) {
      const told = outcomeOf(error);
      this.#history.note({ ...job, ...told, to: Date.now() });
      if (told.outcome === 'unknown') this.figures.unknownJobs += 1;
      else this.figures.refusedJobs += 1;
    }
  }

  async #put({ ledger, name: by }: MemberProcess): Promise<void> {
    const name = randomUUID();
    const from = Date.now();
    const put = { fact: 'put', name, by, from } as const;
    try {
      await ledger.call('put', { name });
      const to = Date.now();
      this.#history.note({ ...put, outcome: 'kept', to });
      this.waits.push({ kind: 'put', by, from, to });
      this.figures.puts += 1;
    } catch (error) {
      this.#history.note({ ...put, ...outcomeOf(error), to: Date.now() });
    }
  }

  /** Sends the key of an unknown minion, accepts it, and then deletes or rejects it. */
  async #changeKey(api: MasterApi, caller: number, count: number): Promise<void> {
    const id = `key-${caller}-${count}`;
    const [keyText] = this.#site.keys;
    if (keyText === undefined) throw new Error('no key');
    const { requestPort, members } = this.#site;
    const [member] = members.slice((caller + count) % members.length);
    const line = new Line(requestPort, member?.place.host, 5000);
    await new SwarmMinion(id, 1, importKey(keyText), line).signIn(undefined).catch(() => {});
    line.close();
    const steps = count % 3 === 0 || this.keepsKeys ? (['accepted'] as const) : bothSteps(count);
    for (const state of steps) {
      const isDone = await this.#moveKey(api, id, state);
      this.#history.note({ fact: 'key', id, state: isDone ? state : undefined });
      if (!isDone) return;
      this.figures.keyChanges += 1;
      if (state !== 'accepted') this.figures.revocations += 1;
    }
  }

  async #moveKey(
    api: MasterApi,
    id: string,
    state: 'accepted' | 'deleted' | 'rejected',
  ): Promise<boolean> {
    try {
      for (let tries = 0; tries < 8; tries += 1) {
        const changes = await moves[state](api.keys, id);
        if (changes.some((it) => it.id === id)) return true;
        // The master that answers may not have applied the change yet.
        await sleep(pauseMs);
      }
    } catch {
      // The call may have taken effect.
    }
    return false;
  }

  async #revokeToken(api: MasterApi): Promise<void> {
    let token = '';
    try {
      const login = await api.logins.login({ username: user, password, eauth: 'sharedsecret' });
      token = login.token;
      this.#history.note({ fact: 'token', token, state: 'valid' });
      const [revoked] = await api.logins.revoke({ id: login.id });
      if (revoked !== undefined) await this.#heardEverywhere(token);
      const state = revoked === undefined ? undefined : 'revoked';
      this.#history.note({ fact: 'token', token, state });
      if (state !== undefined) this.figures.revocations += 1;
    } catch {
      if (token !== '') this.#history.note({ fact: 'token', token, state: undefined });
    }
  }

  /**
   * Records how long each master accepts a token that was just revoked. A master that is down is
   * skipped.
   */
  async #heardEverywhere(token: string): Promise<void> {
    const from = Date.now();
    const ask = async ({ api, name: by }: MemberProcess): Promise<void> => {
      for (let isRefused = false; !isRefused && Date.now() < from + revocationMs; ) {
        try {
          await api.logins.identify(token);
          await sleep(pollMs);
        } catch (error) {
          if (codeOf(error) !== 'ERR_EAUTH_TOKEN') return;
          isRefused = true;
        }
      }
      this.waits.push({ kind: 'revocation', by, from, to: Date.now() });
    };
    await Promise.all(this.#site.members.map(ask));
  }

  /**
   * Runs a command of the bridge with one idempotency key. The run is requested at one master after
   * the other until it has ended.
   */
  async #run(caller: number, count: number): Promise<void> {
    const key = `run-${caller}-${count}`;
    const [minion = ''] = this.#targets.slice((caller * 11 + count) % this.#targets.length);
    const { members } = this.#site;
    for (let tries = 0; tries < runTries; tries += 1) {
      const [member] = members.slice((caller + tries) % members.length);
      if (member === undefined) return;
      const ended = await runOnce(member, key, minion).catch(() => undefined);
      if (ended !== undefined) {
        this.#history.note({ fact: 'run', key, minion, ...ended });
        this.figures.runs += 1;
        return;
      }
      await sleep(pauseMs * 4);
    }
  }
}

const moves = {
  accepted: (keys: MasterApi['keys'], match: string) => keys.accept({ match }),
  deleted: (keys: MasterApi['keys'], match: string) => keys.delete({ match }),
  rejected: (keys: MasterApi['keys'], match: string) =>
    keys.reject({ match, include: ['accepted'] }),
};

function bothSteps(count: number): readonly ('accepted' | 'deleted' | 'rejected')[] {
  return ['accepted', count % 3 === 1 ? 'deleted' : 'rejected'];
}

interface RunUpdate {
  readonly type: string;
  readonly id?: string;
  readonly isRepeated?: boolean;
  readonly outcome?: { readonly status: string };
}

/**
 * Returns the result of the run with this key at one member.
 * @throws the errors of the run's stream
 */
export async function runOnce(
  { bridge }: Pick<MemberProcess, 'bridge'>,
  key: string,
  minion: string,
): Promise<
  { readonly id: string; readonly status: string; readonly isRepeated: boolean } | undefined
> {
  const request = {
    command: 'site.once',
    tgt: [minion],
    tgtType: 'list',
    params: { key },
    idempotencyKey: key,
  };
  let id = '';
  let isRepeated = false;
  const signal = AbortSignal.timeout(runMs);
  for await (const update of bridge.stream<RunUpdate>('run', request, signal)) {
    if (update.type === 'begun') [id, isRepeated] = [update.id ?? '', update.isRepeated ?? false];
    if (update.type !== 'outcome') continue;
    const status = update.outcome?.status ?? '';
    return { id, status, isRepeated };
  }
  return undefined;
}
