/** Callers of the masters: each begins at another one, and notes what it asked for and was told. */
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
  /** Of all callers together, a second. */
  readonly jobs: number;
  readonly puts: number;
  readonly keys: number;
  readonly tokens: number;
  readonly runs: number;
}

/** What came of the calls until now. */
interface CallFigures {
  jobs: number;
  unknownJobs: number;
  refusedJobs: number;
  keyChanges: number;
  revocations: number;
  runs: number;
  puts: number;
}

/** Nothing was done: the caller may try again. */
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
  // Not even sent: the socket is not there.
  const isUnsent = code === 'ERR_SOCKET' && Object(error).wasSent === false;
  return { outcome: refusals.has(code) || isUnsent ? 'refused' : 'unknown', code };
}

/** A token that may do everything. */
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
  /** Waits of writes that were kept (a job, or a row of the ledger), and until a revocation was heard of. */
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
  /** Keys are not deleted meanwhile: it has the publish key replaced, and all sign in again. */
  keepsKeys = false;

  constructor(site: Site, token: string, targets: readonly string[]) {
    this.#site = site;
    this.#token = token;
    this.#targets = targets;
    this.#history = new HistoryFile(site.histories, 'callers');
  }

  /** The handles that minions signal; resolves when they are registered. */
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

  /** Nothing more is asked for. */
  stop(): void {
    this.#isOver = true;
  }

  /** Resolves when every call that was begun is over. */
  async end(): Promise<void> {
    this.stop();
    await Promise.all(this.#running);
  }

  /** @param concurrency - how many may be under way: callers do not wait for each other */
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

  /** An unknown minion shows its key, which is accepted, and then deleted or rejected. */
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
        // The master that answers may not have heard of it yet.
        await sleep(pauseMs);
      }
    } catch {
      // It may have been done.
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

  /** Notes how long each master takes a token that was just revoked; what is away is not asked on. */
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

  /** One run of the bridge under one key, asked for at one master after the other until it is over. */
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

/** What one member says of the run of a key. @throws as the stream of the run */
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
