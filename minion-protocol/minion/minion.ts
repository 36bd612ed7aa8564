/**
 * A small minion for embedding: signs in, waits for acceptance, subscribes, runs the functions it
 * has, and returns what they gave. For tests, the demo and small appliances.
 */

import { sleepUntilAborted } from '#runtime';
import { generateKeyString } from '../crypt.ts';
import type { PublicationLoad } from '../loads.ts';
import { createMinionHandshake, type MinionHandshakeConfig } from '../minion-handshake.ts';
import { isWireMap, type WireMap, type WireValue } from '../payload.ts';
import { factsOf } from '../targeting/facts.ts';
import type { TargetCandidate } from '../targeting/target.ts';
import {
  BROADCAST_TOPIC,
  type MinionTransport,
  minionTopic,
  TransportError,
} from '../transport/transport.ts';
import { builtInFunctions, type MinionFunction } from './functions.ts';
import { type JobResult, type MinionJob, MinionJobs } from './jobs.ts';
import type { MinionKeys } from './key-files.ts';
import { isMinionTargeted } from './own-target.ts';
import {
  createMinionIdentity,
  isOutdatedKeyError,
  type MinionIdentity,
  MinionSession,
} from './session.ts';

/** Where a minion stands. */
export type MinionState =
  | { readonly state: 'stopped' }
  /** Asks the master for its keys; `attempts` without success so far. */
  | { readonly state: 'signing-in'; readonly attempts: number }
  /** The operator has not accepted the key yet. */
  | { readonly state: 'pending' }
  /** Subscribed: jobs arrive. */
  | { readonly state: 'connected' }
  /** The operator rejected the key; the minion has given up. */
  | { readonly state: 'refused' };

/** What a minion is made of. */
export interface MinionOptions {
  readonly id: string;
  /** Its way to the master; belongs to the minion, which closes it. */
  readonly transport: MinionTransport;
  /** From `openMinionKeys(directory)` or `createMinionKeys()`. */
  readonly keys: MinionKeys;
  /** Default: 3. */
  readonly version?: 2 | 3;
  /** What it says of itself; `id` is added. */
  readonly grains?: WireMap;
  /** Functions besides, or in place of, the built-in ones. */
  readonly functions?: Readonly<Record<string, MinionFunction>>;
  /** Accept only a master whose key has this fingerprint. */
  readonly masterFinger?: string;
  /** Subscribe to its own topic only (`zmq_filtering`; the master must filter too). */
  readonly filtering?: boolean;
  /** Milliseconds between sign-ins while pending. Default 10,000, as Salt's. */
  readonly acceptanceWaitMs?: number;
  /** Milliseconds for one sign-in. Default 5,000. */
  readonly authTimeoutMs?: number;
  /** Milliseconds for any other request. Default 60,000. */
  readonly requestTimeoutMs?: number;
  /** Told of each change of state. */
  readonly onState?: (state: MinionState) => void;
  /** Told of failures that the minion goes on after. */
  readonly onError?: (error: unknown) => void;
}

/** How often a return is tried, and the pause after the first failure, milliseconds. */
const returnTries = 3;
const returnPauseMs = 1000;

/** See {@link createMinion}. */
export class Minion {
  readonly #options: MinionOptions;
  readonly #identity: MinionIdentity;
  readonly #jobs: MinionJobs;
  readonly #token = generateKeyString();
  readonly #stopped = new AbortController();
  #masterPem: string | undefined;
  #state: MinionState = { state: 'stopped' };
  #session: MinionSession | undefined;
  #signingIn: Promise<MinionSession> | undefined;
  #pillar: WireMap = {};

  constructor(options: MinionOptions) {
    this.#options = options;
    this.#identity = createMinionIdentity(
      options.id,
      options.version ?? 3,
      options.keys.privatePem,
    );
    this.#masterPem = options.keys.masterPem;
    this.#jobs = new MinionJobs(
      new Map([...builtInFunctions, ...Object.entries(options.functions ?? {})]),
    );
  }

  get state(): MinionState {
    return this.#state;
  }

  /**
   * Signs in, waiting for acceptance as long as it takes, subscribes, fetches its pillar and says
   * that it has started. Rejects when the key was rejected, or the minion was stopped meanwhile.
   * @throws TransportError ERR_CLOSED
   */
  async start(): Promise<void> {
    const session = await this.#signIn();
    const { id, filtering = false, transport } = this.#options;
    const topics = filtering ? [BROADCAST_TOPIC, minionTopic(id)] : null;
    await transport.subscribe(session.publishPort, topics, (envelope) => {
      this.#receive(envelope).catch((error: unknown) => this.#report(error));
    });
    this.#move({ state: 'connected' });
    await this.refreshPillar();
    await this.#request({
      cmd: '_minion_event',
      tag: `salt/minion/${id}/start`,
      data: `Minion ${id} started`,
      pretag: null,
    });
  }

  /**
   * Fires an event; the master's policy decides whether anybody hears it.
   * @returns the id under which the bridge keeps and delivers it, where it is a signal for a handle
   * that was accepted. A salt-master gives none.
   */
  async fire(tag: string, data: WireMap): Promise<string | undefined> {
    const load = { cmd: '_minion_event', tag, data, pretag: null, signal_id: true };
    const answer = await this.#request(load);
    return typeof answer === 'string' ? answer : undefined;
  }

  /** Fetches the pillar anew. */
  async refreshPillar(): Promise<void> {
    const load = {
      cmd: '_pillar',
      grains: this.#grains(),
      saltenv: null,
      pillarenv: null,
      pillar_override: {},
      extra_minion_data: {},
      ver: '2',
    };
    this.#pillar = await this.#exchange(load, (session, reply, nonce) =>
      session.openPillar(reply, nonce),
    );
  }

  /** Ends jobs and connections. May be called twice. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#jobs.stop();
    await this.#options.transport.close();
    if (this.#state.state !== 'refused') this.#move({ state: 'stopped' });
  }

  #grains(): WireMap {
    return { ...this.#options.grains, id: this.#options.id };
  }

  #candidate(): TargetCandidate {
    const facts = { grains: factsOf(this.#grains()), pillar: factsOf(this.#pillar) };
    return { id: this.#options.id, facts };
  }

  async #receive(envelope: Uint8Array): Promise<void> {
    const load = await this.#openPublication(envelope);
    if (!isJob(load) || !isMinionTargeted(this.#candidate(), load)) return;
    if (!this.#jobs.isNew(load.jid)) return;
    const job: MinionJob = { jid: load.jid, fun: String(load.fun), arg: load.arg, load };
    const result = await this.#jobs.run(job, {
      id: this.#options.id,
      grains: this.#grains(),
      pillar: this.#pillar,
      fire: (tag, data) => this.fire(tag, data),
    });
    await this.#return(job, result);
  }

  /** A publication under a newer key is opened again after a new sign-in, so it is not lost. */
  async #openPublication(envelope: Uint8Array): Promise<WireValue> {
    const session = this.#session ?? (await this.#signIn());
    try {
      return session.openPublication(envelope);
    } catch (error) {
      if (!isOutdatedKeyError(error)) throw error;
      return (await this.#signInAfter(session)).openPublication(envelope);
    }
  }

  async #return(job: MinionJob, result: JobResult): Promise<void> {
    const load: WireMap = {
      cmd: '_return',
      jid: job.jid,
      fun: job.fun,
      fun_args: [...job.arg],
      return: result.return,
      retcode: result.retcode,
      success: result.success,
      ...(result.out === undefined ? {} : { out: result.out }),
    };
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#request(load);
        return;
      } catch (error) {
        const mayRetry = error instanceof TransportError && error.code === 'ERR_TIMEOUT';
        if (!mayRetry || attempt === returnTries) throw error;
        await sleepUntilAborted(returnPauseMs * attempt, this.#stopped.signal);
      }
    }
  }

  #request(load: WireMap): Promise<WireValue> {
    return this.#exchange(load, (session, reply, nonce) => session.openReply(reply, nonce));
  }

  /** Sends a request; signs in again and repeats it once when the keys turn out to be old. */
  async #exchange<T>(
    load: WireMap,
    open: (session: MinionSession, reply: Uint8Array, nonce: string) => T,
  ): Promise<T> {
    const session = this.#session ?? (await this.#signIn());
    try {
      return await this.#ask(session, load, open);
    } catch (error) {
      if (!isOutdatedKeyError(error)) throw error;
      return this.#ask(await this.#signInAfter(session), load, open);
    }
  }

  async #ask<T>(
    session: MinionSession,
    load: WireMap,
    open: (session: MinionSession, reply: Uint8Array, nonce: string) => T,
  ): Promise<T> {
    const { bytes, nonce } = session.seal(load);
    const timeoutMs = this.#options.requestTimeoutMs ?? 60_000;
    return open(session, await this.#options.transport.request(bytes, timeoutMs), nonce);
  }

  /** A session newer than `old`: somebody else may have signed in meanwhile. */
  #signInAfter(old: MinionSession): Promise<MinionSession> {
    if (this.#session !== undefined && this.#session !== old) return Promise.resolve(this.#session);
    this.#session = undefined;
    return this.#signIn();
  }

  #signIn(): Promise<MinionSession> {
    this.#signingIn ??= this.#signInNow().finally(() => {
      this.#signingIn = undefined;
    });
    return this.#signingIn;
  }

  async #signInNow(): Promise<MinionSession> {
    const wasConnected = this.#state.state === 'connected';
    for (let attempts = 0; ; attempts += 1) {
      if (this.#stopped.signal.aborted)
        throw new TransportError('ERR_CLOSED', 'the minion was stopped');
      this.#move({ state: 'signing-in', attempts });
      const session = await this.#tryToSignIn();
      if (session !== undefined) {
        this.#session = session;
        if (wasConnected) this.#move({ state: 'connected' });
        return session;
      }
      await sleepUntilAborted(this.#options.acceptanceWaitMs ?? 10_000, this.#stopped.signal);
    }
  }

  async #tryToSignIn(): Promise<MinionSession | undefined> {
    const { keys, transport, authTimeoutMs = 5_000 } = this.#options;
    const handshake = createMinionHandshake(this.#handshakeConfig());
    try {
      const step = handshake.step(await transport.request(handshake.request(), authTimeoutMs));
      switch (step.state) {
        case 'accepted':
          if (step.masterPub !== this.#masterPem) await keys.trustMaster(step.masterPub);
          this.#masterPem = step.masterPub;
          return new MinionSession(this.#identity, step);
        case 'refused':
          this.#move({ state: 'refused' });
          this.#stopped.abort();
          throw new TransportError('ERR_CLOSED', 'the master rejected the key of this minion');
        case 'pending':
          this.#move({ state: 'pending' });
          return undefined;
        default:
          this.#report(step);
          return undefined;
      }
    } catch (error) {
      const isPassing = error instanceof TransportError && error.code !== 'ERR_CLOSED';
      if (!isPassing) throw error;
      this.#report(error);
      return undefined;
    }
  }

  #handshakeConfig(): MinionHandshakeConfig {
    const { masterFinger } = this.#options;
    return {
      id: this.#identity.id,
      version: this.#identity.version,
      privateKey: this.#identity.privateKey,
      publicPem: this.#options.keys.publicPem,
      token: this.#token,
      ...(this.#masterPem === undefined ? {} : { masterPub: this.#masterPem }),
      ...(masterFinger === undefined ? {} : { masterFinger }),
    };
  }

  #move(state: MinionState): void {
    this.#state = state;
    this.#options.onState?.(state);
  }

  #report(error: unknown): void {
    if (!this.#stopped.signal.aborted) this.#options.onError?.(error);
  }
}

/** A minion that has not started yet: see {@link Minion.start}. */
export function createMinion(options: MinionOptions): Minion {
  return new Minion(options);
}

function isJob(load: WireValue): load is PublicationLoad {
  return (
    isWireMap(load) &&
    typeof load.jid === 'string' &&
    typeof load.fun === 'string' &&
    Array.isArray(load.arg) &&
    (typeof load.tgt === 'string' || Array.isArray(load.tgt))
  );
}
