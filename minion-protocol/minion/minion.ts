/**
 * A small embeddable minion for tests, the demo and small appliances. It signs in, waits for
 * acceptance, subscribes, runs its functions and returns their results.
 */

import { sleepUntilAborted } from '#runtime';
import { generateKeyString } from '../crypt.ts';
import type { PublicationLoad } from '../loads.ts';
import { createMinionHandshake, type MinionHandshakeConfig } from '../minion-handshake.ts';
import { factsOf } from '../targeting/facts.ts';
import type { TargetCandidate } from '../targeting/target.ts';
import {
  BROADCAST_TOPIC,
  type MinionTransport,
  minionTopic,
  TransportError,
} from '../transport/transport.ts';
import { isWireMap, type WireMap, type WireValue } from '../wire-value.ts';
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

/** Connection state of a minion. */
export type MinionState =
  | { readonly state: 'stopped' }
  /** The minion is signing in. `attempts` is the number of previous unsuccessful attempts. */
  | { readonly state: 'signing-in'; readonly attempts: number }
  /** The minion waits until the operator accepts its key. */
  | { readonly state: 'pending' }
  /** The minion is subscribed and receives jobs. */
  | { readonly state: 'connected' }
  /** The minion has stopped because the operator rejected its key. */
  | { readonly state: 'refused' };

/** Options of {@link createMinion}. */
export interface MinionOptions {
  readonly id: string;
  /** Connection to the master. The minion owns it and closes it. */
  readonly transport: MinionTransport;
  /** Result of `openMinionKeys(directory)` or `createMinionKeys()`. */
  readonly keys: MinionKeys;
  /** Protocol version. Default: 3. */
  readonly version?: 2 | 3;
  /** Grains of the minion. The minion adds the grain `id`. */
  readonly grains?: WireMap;
  /** Functions that extend or replace the built-in ones. */
  readonly functions?: Readonly<Record<string, MinionFunction>>;
  /** Fingerprint of the only accepted master key. Default: any master. */
  readonly masterFinger?: string;
  /**
   * Whether the minion subscribes only to the broadcast topic and its own topic (`zmq_filtering`,
   * which must be set on the master, too). Default: `false`; the minion receives all publications.
   */
  readonly filtering?: boolean;
  /**
   * Delay before the next sign-in if the key is pending or a sign-in failed, in milliseconds.
   * Default: 10,000, as in Salt.
   */
  readonly acceptanceWaitMs?: number;
  /** Timeout of a sign-in, in milliseconds. Default: 5,000. */
  readonly authTimeoutMs?: number;
  /** Timeout of any other request, in milliseconds. Default: 60,000. */
  readonly requestTimeoutMs?: number;
  /** Called at each change of state. */
  readonly onState?: (state: MinionState) => void;
  /** Called for errors after which the minion continues. */
  readonly onError?: (error: unknown) => void;
}

/** Maximum number of attempts to send a return. */
const returnTries = 3;
/**
 * Delay before the second attempt to send a return, in milliseconds. It grows by this amount before
 * each further attempt.
 */
const returnPauseMs = 1000;

/** An embedded minion. Create it with {@link createMinion}. */
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
   * Signs in, waits for acceptance without a time limit, subscribes, fetches the pillar and fires
   * the start event.
   * @throws TransportError ERR_CLOSED if the master rejects the key or the minion is stopped
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
   * Sends an event to the master, whose policy decides whether it is published. A salt-master never
   * returns the id of a signal.
   * @returns the id of the signal, if the bridge stores the event as a signal for a handle;
   * otherwise `undefined`
   */
  async fire(tag: string, data: WireMap): Promise<string | undefined> {
    const load = { cmd: '_minion_event', tag, data, pretag: null, signal_id: true };
    const answer = await this.#request(load);
    return typeof answer === 'string' ? answer : undefined;
  }

  /** Fetches the pillar again. */
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

  /** Stops jobs and closes connections. May be called twice. */
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

  /**
   * Decrypts a publication. If the master encrypted it with a newer key, the minion signs in again
   * and decrypts it with the new key. The publication is therefore not lost.
   */
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

  /** Sends a request. If the keys have expired, signs in again and repeats the request once. */
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

  /**
   * Returns a session that is newer than `old`. A concurrent request may already have created it.
   */
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

/** Creates a minion. Call {@link Minion.start} to start it. */
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
