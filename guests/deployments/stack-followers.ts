/**
 * Runs the deployments of all registered stacks: a follower lists the servers of one stack, and a
 * worker handles one server.
 */

import { setMaxListeners } from 'node:events';
import { sleepUntilAborted } from '#runtime';
import {
  type FollowedServer,
  type ServerStatus,
  ServerWorker,
  type ServerWorkerDeps,
} from './server-worker.ts';
import { type findServers, namedServers } from './stack-servers.ts';
import type { RegisteredStack, StackRegistry } from './stacks.ts';

/** Followers of all stacks. They run while this process is the active member of the cluster. */
export class StackFollowers {
  readonly #registry: Pick<StackRegistry, 'all' | 'get'>;
  readonly #create: (stack: RegisteredStack, ended: AbortSignal) => StackFollower;
  readonly #followers = new Map<string, StackFollower>();
  /** Followers and workers that are stopping. */
  readonly #ending = new Set<Promise<unknown>>();
  #ended: AbortSignal = AbortSignal.abort();

  constructor(
    registry: Pick<StackRegistry, 'all' | 'get'>,
    create: (stack: RegisteredStack, ended: AbortSignal) => StackFollower,
  ) {
    this.#registry = registry;
    this.#create = create;
  }

  get isActive(): boolean {
    return !this.#ended.aborted;
  }

  /**
   * Starts the followers.
   * @param ended - fires when another process becomes active
   */
  begin(ended: AbortSignal): void {
    this.#ended = ended;
    for (const { id } of this.#registry.all) void this.update(id);
    // Every worker adds a listener to this signal.
    setMaxListeners(0, ended);
    const end = (): void => {
      if (this.#ended === ended) this.end();
    };
    ended.addEventListener('abort', end, { once: true });
  }

  end(): void {
    for (const id of [...this.#followers.keys()]) void this.#stop(id);
  }

  /**
   * Starts a follower with the current registration of a stack, and ends the previous one. Resolves
   * when the previous follower has ended.
   */
  async update(id: string): Promise<void> {
    const stopped = this.#stop(id);
    const stack = this.#registry.get(id);
    if (stack !== undefined && this.isActive) {
      this.#followers.set(id, this.#create(stack, this.#ended));
    }
    await stopped;
  }

  /** Status of all servers. */
  get status(): readonly ServerStatus[] {
    return [...this.#followers.values()].flatMap(({ status }) => status);
  }

  statusOf(id: string): readonly ServerStatus[] {
    return this.#followers.get(id)?.status ?? [];
  }

  /** Resolves when all followers that were stopped have ended. */
  get done(): Promise<unknown> {
    return Promise.all(this.#ending);
  }

  async #stop(id: string): Promise<void> {
    const follower = this.#followers.get(id);
    if (follower === undefined) return;
    this.#followers.delete(id);
    follower.stop();
    const ending = follower.done.finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    await ending;
  }
}

interface StackFollowerDeps {
  readonly worker: ServerWorkerDeps;
  readonly find: () => ReturnType<typeof findServers>;
  readonly intervalMs: number;
}

/**
 * Manages one worker for each server of a stack. The servers are those in the registration, and
 * those among the resources of the stack.
 */
export class StackFollower {
  readonly #stack: RegisteredStack;
  readonly #deps: StackFollowerDeps;
  readonly #workers = new Map<string, ServerWorker>();
  /** Workers that have not ended yet, although their servers were removed. */
  readonly #ending = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #found: Promise<void>;
  #problem: string | undefined;

  constructor(stack: RegisteredStack, deps: StackFollowerDeps) {
    this.#stack = stack;
    this.#deps = deps;
    for (const server of namedServers(stack)) this.#add(server);
    this.#found = this.#find();
  }

  get done(): Promise<unknown> {
    const workers = [...this.#workers.values()].map(({ done }) => done);
    return Promise.all([this.#found, ...this.#ending, ...workers]);
  }

  get status(): readonly ServerStatus[] {
    const servers = [...this.#workers.values()].map(({ status }) => status);
    if (this.#problem === undefined) return servers;
    return [...servers, { server: '*', serverId: '*', problem: this.#problem }];
  }

  stop(): void {
    this.#stop.abort();
    for (const worker of this.#workers.values()) worker.stop();
  }

  /** Lists the servers repeatedly, because autoscaling and stack updates change them. */
  async #find(): Promise<void> {
    if (this.#stack.registration.stack === undefined) return;
    const { closing, random, log } = this.#deps.worker;
    const { find, intervalMs } = this.#deps;
    let wait = Math.min(intervalMs, 1_000) * random();
    for (;;) {
      await sleepUntilAborted(wait, closing, this.#stop.signal);
      if (closing.aborted || this.#stop.signal.aborted) return;
      const found = await find().catch((error: unknown) => {
        log.error({ err: error }, 'internal error while listing the servers of a stack; retrying');
        return { ok: false, reason: 'internal error of the master; see its log' } as const;
      });
      if (closing.aborted || this.#stop.signal.aborted) return;
      if (found.ok) this.#keep(found.servers);
      this.#problem = found.ok ? undefined : found.reason;
      wait = intervalMs * (0.95 + 0.1 * random()) * (found.ok ? 1 : 2);
    }
  }

  #keep(servers: readonly FollowedServer[]): void {
    const wanted = new Set([...namedServers(this.#stack), ...servers].map(({ server }) => server));
    for (const [name, worker] of this.#workers) {
      if (wanted.has(name)) continue;
      worker.stop();
      this.#workers.delete(name);
      const ended = worker.done
        .then(() => worker.withdrawHandles())
        .catch((error: unknown) => {
          const text = 'could not remove the handles of a server that left its stack';
          this.#deps.worker.log.error({ server: name, err: error }, text);
        })
        .finally(() => this.#ending.delete(ended));
      this.#ending.add(ended);
    }
    for (const server of servers) if (!this.#workers.has(server.server)) this.#add(server);
  }

  #add(server: FollowedServer): void {
    this.#workers.set(server.server, new ServerWorker(server, this.#deps.worker));
  }
}
