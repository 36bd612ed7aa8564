import type { KeyObject } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import {
  type AuthMaterial,
  type AuthReplyContext,
  type AuthRequest,
  aesKeySignature,
  buildAccepted,
  buildRefusal,
  encodePrivateReply,
  isMinionToken,
  isSignedLoad,
  masterPubkeySignature,
  type PrivateReply,
  ProtocolError,
  rsaSign,
  type SigningAlgorithm,
} from '../../minion-protocol/signing.ts';
import { MasterError } from '../api/index.ts';
import { MinionKeyCache } from './session-keys.ts';

interface Waiting {
  readonly id: number;
  readonly task: RsaTask;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Member {
  readonly worker: Worker;
  /** Tasks sent to this worker and not yet answered. */
  readonly underWay: Map<number, Waiting>;
}

/** How the pool is made. */
export interface RsaPoolOptions {
  /** Threads at most; each is started when the others are busy. Default: one a processor. */
  readonly threads?: number;
  /** Tasks that may wait; one more is refused. Default 4096. */
  readonly maxWaiting?: number;
}

/** A worker holds little more than keys; without these V8 reserves as for a whole program. */
const resourceLimits = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 128 };

/** A thread has no more tasks than this at a time; what waits longer goes to whoever is free. */
const maxTasksPerThread = 8;
/** With fewer than this left a thread is given more, so that it never waits for the main thread. */
const ahead = 2;

/**
 * Worker threads for RSA, so that no private-key operation ever holds the thread that moves
 * bytes. Bounded: a flood of sign-ins is refused at the door instead of queueing up.
 */
export class RsaPool {
  readonly #members: Member[] = [];
  readonly #queue: Waiting[] = [];
  readonly #maxWaiting: number;
  readonly #threads: number;
  #lastId = 0;
  #isClosed = false;

  constructor(options: RsaPoolOptions = {}) {
    this.#maxWaiting = options.maxWaiting ?? 4096;
    this.#threads = options.threads ?? availableParallelism();
  }

  /** Tasks that wait for a worker. */
  get waiting(): number {
    return this.#queue.length;
  }

  /**
   * Runs one task on a worker.
   * @throws MasterError ERR_RSA_OVERLOAD when too many wait, ERR_MASTER_STOPPED after close
   */
  run<T extends RsaTask>(task: T): Promise<RsaResult<T>> {
    if (this.#isClosed) {
      return Promise.reject(new MasterError('ERR_MASTER_STOPPED', 'the master is being closed'));
    }
    if (this.#queue.length >= this.#maxWaiting) {
      const message = `${this.#queue.length} RSA operations are waiting; this one was refused`;
      return Promise.reject(new MasterError('ERR_RSA_OVERLOAD', message));
    }
    return new Promise<RsaResult<T>>((resolve, reject) => {
      this.#lastId += 1;
      // The worker answers a task with the result that RsaResult names for its kind.
      const settle = resolve as (result: unknown) => void;
      this.#queue.push({ id: this.#lastId, task, resolve: settle, reject });
      this.#dispatch();
    });
  }

  /** Refuses what waits and ends the threads. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const error = new MasterError('ERR_MASTER_STOPPED', 'the master is being closed');
    for (const waiting of this.#queue.splice(0)) waiting.reject(error);
    await Promise.all(this.#members.splice(0).map(({ worker }) => worker.terminate()));
  }

  #hire(): Member {
    const worker = new Worker(new URL('./rsa-worker.js', import.meta.url), { resourceLimits });
    const member: Member = { worker, underWay: new Map() };
    worker.unref();
    worker.on('message', (answers: readonly RsaAnswer[]) => this.#settle(member, answers));
    worker.on('error', (error: Error) => this.#replace(member, error));
    return member;
  }

  #dispatch(): void {
    while (this.#queue.length > 0) {
      const member = this.#leastBusy();
      if (member === undefined) return;
      const share = Math.ceil(this.#queue.length / this.#threads);
      this.#give(
        member,
        this.#queue.splice(0, Math.min(share, maxTasksPerThread - member.underWay.size)),
      );
    }
  }

  /** One message for many tasks: waking a thread costs a good part of an RSA operation. */
  #give(member: Member, tasks: readonly Waiting[]): void {
    for (const waiting of tasks) member.underWay.set(waiting.id, waiting);
    try {
      member.worker.postMessage(tasks.map(({ id, task }): RsaOrder => ({ id, task })));
    } catch (cause) {
      // A value that cannot be copied to another thread, from a pillar provider for instance.
      for (const { id } of tasks) member.underWay.delete(id);
      if (tasks.length > 1) {
        for (const waiting of tasks) this.#give(member, [waiting]);
        return;
      }
      tasks[0]?.reject(new TypeError('a task that no worker can be given', { cause }));
    }
  }

  #leastBusy(): Member | undefined {
    let best: Member | undefined;
    for (const member of this.#members) {
      if (member.underWay.size < (best?.underWay.size ?? ahead)) best = member;
    }
    if (best?.underWay.size === 0 || this.#members.length >= this.#threads) return best;
    const fresh = this.#hire();
    this.#members.push(fresh);
    return fresh;
  }

  #settle(member: Member, answers: readonly RsaAnswer[]): void {
    for (const { id, result, error } of answers) {
      const waiting = member.underWay.get(id);
      member.underWay.delete(id);
      if (error !== undefined) waiting?.reject(error);
      else waiting?.resolve(result);
    }
    this.#dispatch();
  }

  /** A worker that died takes its tasks with it; another takes its place. */
  #replace(member: Member, error: Error): void {
    for (const waiting of member.underWay.values()) waiting.reject(error);
    const index = this.#members.indexOf(member);
    if (index === -1 || this.#isClosed) return;
    this.#members[index] = this.#hire();
    this.#dispatch();
  }
}

// Tasks of the worker threads. Their implementation is in `minion-protocol/`.

/** One piece of work. Key objects are shared with the worker, not copied. */
export type RsaTask =
  | { readonly kind: 'accept'; readonly request: AuthRequest; readonly material: AuthMaterial }
  | {
      readonly kind: 'refuse';
      readonly context: AuthReplyContext;
      readonly ret: boolean | 'full';
      readonly masterKey: KeyObject;
    }
  | {
      readonly kind: 'private';
      readonly minionPem: string;
      readonly reply: Omit<PrivateReply, 'minionKey'>;
    }
  | { readonly kind: 'check-key'; readonly pem: string }
  | { readonly kind: 'check-token'; readonly pem: string; readonly token: Uint8Array }
  | {
      readonly kind: 'check-load';
      readonly pem: string;
      readonly packed: Uint8Array;
      readonly signature: Uint8Array;
    }
  | { readonly kind: 'sign-key-string'; readonly masterKey: KeyObject; readonly keyString: string }
  | {
      readonly kind: 'sign-master-pub';
      readonly signKey: KeyObject;
      readonly publicPem: string;
      readonly algorithm: SigningAlgorithm;
    }
  | {
      readonly kind: 'sign';
      readonly masterKey: KeyObject;
      readonly bytes: Uint8Array;
      readonly algorithm: SigningAlgorithm;
    };

/** What a task gives: bytes for all that sign or encrypt, yes or no for the checks. */
export type RsaResult<T extends RsaTask> = T extends {
  kind: 'check-key' | 'check-token' | 'check-load';
}
  ? boolean
  : T extends { kind: 'sign-master-pub' }
    ? string
    : Uint8Array;

/** A task on its way to a worker thread. */
export interface RsaOrder {
  readonly id: number;
  readonly task: RsaTask;
}

/** What became of the task of that id. */
export interface RsaAnswer {
  readonly id: number;
  readonly result?: unknown;
  /** What it threw, as it arrives in another thread. */
  readonly error?: unknown;
}

/** Carries out tasks one after the other; minions' keys are imported once and remembered. */
export class RsaWork {
  readonly #minionKeys = new MinionKeyCache();

  /** @throws ProtocolError when a key or a ciphertext in the task is unusable */
  perform(task: RsaTask): Uint8Array | boolean | string {
    switch (task.kind) {
      case 'accept': {
        const { request, material } = task;
        return buildAccepted(request, material, this.#minionKeys.get(request.pub));
      }
      case 'refuse':
        return buildRefusal(task.context, task.ret, task.masterKey);
      case 'private':
        return encodePrivateReply({ ...task.reply, minionKey: this.#import(task.minionPem) });
      case 'check-key':
        return this.#minionKeys.get(task.pem) !== undefined;
      case 'check-token':
        return isMinionToken(this.#import(task.pem), task.token);
      case 'check-load':
        return isSignedLoad(this.#import(task.pem), task.packed, task.signature);
      case 'sign-key-string':
        return aesKeySignature(task.masterKey, task.keyString);
      case 'sign-master-pub':
        return masterPubkeySignature(task.signKey, task.publicPem, task.algorithm);
      case 'sign':
        return rsaSign(task.masterKey, task.bytes, task.algorithm);
    }
  }

  /** @throws ProtocolError ERR_BAD_KEY */
  #import(pem: string): KeyObject {
    const key = this.#minionKeys.get(pem);
    if (key !== undefined) return key;
    throw new ProtocolError('ERR_BAD_KEY', 'the accepted key of a minion is not usable');
  }
}
