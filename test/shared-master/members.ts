/** Processes that share a master, and simulated minions that run longer than any of them. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { LastingMinion } from '../../bench/crash/lasting-minion.ts';
import { freePort } from '../../bench/free-port.ts';
import { acceptAll } from '../../bench/swarm/accept.ts';
import { importKey, makeKeyTexts, swarmId } from '../../bench/swarm/keys.ts';
import type { Known } from '../../bench/swarm/minion.ts';
import { until, within } from '../helpers/deadline.ts';

/** Message to a process. */
export type Wish =
  | {
      readonly type: 'call';
      readonly id: number;
      readonly path: string;
      readonly args: readonly unknown[];
      /** Extension to which the method belongs. Default: the master itself. */
      readonly extension?: string;
      readonly isStream?: true;
    }
  | { readonly type: 'publish'; readonly perSecond: number; readonly minions: readonly string[] }
  | { readonly type: 'rest' }
  | { readonly type: 'close' };

/** Message from a process. Times are in milliseconds since 1970. */
export type MemberMessage =
  | { readonly type: 'started' | 'role'; readonly role: string }
  | { readonly type: 'item'; readonly id: number; readonly item: unknown }
  | { readonly type: 'result'; readonly id: number; readonly result: unknown }
  | {
      readonly type: 'failed';
      readonly id: number;
      readonly code: string;
      readonly reason: string;
    }
  | {
      readonly type: 'published';
      readonly jid: string;
      readonly from: number;
      readonly to: number;
    }
  | {
      readonly type: 'refused';
      readonly from: number;
      readonly to: number;
      readonly code: string;
      readonly reason: string;
    }
  | { readonly type: 'quiet' };

const program = fileURLToPath(new URL('./member.ts', import.meta.url));
const startMs = 60_000;
const callMs = 90_000;

/** Error of a call, as the process reported it. */
export class MemberError extends Error {
  readonly code: string;

  constructor(code: string, reason: string) {
    super(reason);
    this.code = code;
  }
}

/** One of the processes. */
export class Member {
  readonly #child: ChildProcess;
  readonly #listeners = new Set<(message: MemberMessage) => void>();
  #calls = 0;
  role = 'sibling';

  /**
   * Starts a process.
   * @param log - file for its log
   */
  constructor(directory: string, log: string) {
    this.#child = fork(program, [directory], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
    const file = createWriteStream(log, { flags: 'a' });
    this.#child.stdout?.pipe(file, { end: false });
    this.#child.stderr?.pipe(file, { end: false });
    this.#child.on('message', (message: MemberMessage) => {
      if (message.type === 'role' || message.type === 'started') this.role = message.role;
      for (const listener of [...this.#listeners]) listener(message);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Registers a listener for the end of the process. */
  onEnd(listener: () => void): void {
    this.#child.once('exit', listener);
  }

  /** Registers a listener for all messages of the process. Returns a function that removes it. */
  on(listener: (message: MemberMessage) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves when the process holds the master or has joined the holder.
   * @throws MemberError
   */
  async started(): Promise<void> {
    await this.#first((message) => {
      if (message.type === 'started') return message;
      if (message.type === 'failed' && message.id === 0)
        throw new MemberError(message.code, message.reason);
      return undefined;
    }, startMs);
  }

  /**
   * Calls a method. Returns its result, or the items of a stream.
   * @throws MemberError
   */
  call(path: string, ...args: readonly unknown[]): Promise<unknown> {
    return this.#call({ path, args });
  }

  /**
   * Calls a method of an extension.
   * @throws MemberError
   */
  callExtension(extension: string, path: string, parameters: object): Promise<unknown> {
    return this.#call({ path, args: [parameters], extension });
  }

  /**
   * Returns all items of a stream of an extension.
   * @throws MemberError
   */
  streamExtension(extension: string, path: string, parameters: object): Promise<unknown> {
    return this.#call({ path, args: [parameters], extension, isStream: true });
  }

  #call(call: Omit<Extract<Wish, { readonly type: 'call' }>, 'type' | 'id'>): Promise<unknown> {
    this.#calls += 1;
    const id = this.#calls;
    const result = this.#first((message) => {
      if (message.type === 'result' && message.id === id) return { value: message.result };
      if (message.type === 'failed' && message.id === id)
        throw new MemberError(message.code, message.reason);
      return undefined;
    }, callMs);
    this.send({ type: 'call', id, ...call });
    return result.then(({ value }) => value);
  }

  send(wish: Wish): void {
    this.#child.send(wish);
  }

  /** Kills the process with SIGKILL. Resolves when it has ended. */
  async kill(): Promise<void> {
    if (this.hasEnded) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }

  stop(): void {
    this.#child.kill('SIGSTOP');
  }

  /** Continues the process after {@link stop}. */
  goOn(): void {
    this.#child.kill('SIGCONT');
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.send({ type: 'close' });
    await within('a process to leave', ended, startMs);
  }

  #first<T>(take: (message: MemberMessage) => T | undefined, ms: number): Promise<T> {
    let stop = (): void => {};
    const found = new Promise<T>((resolve, reject) => {
      const fail = (): void => reject(new Error('the process ended'));
      this.#child.once('exit', fail);
      const leave = this.on((message) => {
        try {
          const value = take(message);
          if (value !== undefined) resolve(value);
        } catch (error) {
          reject(error);
        }
      });
      stop = () => {
        leave();
        this.#child.off('exit', fail);
      };
    });
    return within('a process', found, ms).finally(() => stop());
  }
}

/** Configuration besides ports and directories. */
export interface GroupOptions {
  readonly minions: number;
  readonly takeoverAfter?: number;
  /** Options in the section `saltbridge:`. */
  readonly own?: object;
  readonly jobMs?: (fun: string) => number;
  /** Options at the top level. */
  readonly more?: object;
  /** Number of minions that receive jobs. Default: all. */
  readonly listening?: number;
}

/** Processes with the same state directory, and their minions. */
export class Group {
  readonly members: Member[] = [];
  readonly minions: LastingMinion[] = [];
  /** Number of times that each job arrived at each minion, by `<jid> <id>`. */
  readonly arrivals: Map<string, number> = new Map();
  /** Minions' returns that the master has acknowledged, as `<jid> <id>`. */
  readonly acknowledged: string[] = [];
  /** Times at which a real minion would have had to sign in again. */
  readonly outdated: string[] = [];
  readonly directory: string;
  readonly #options: GroupOptions;
  #requestPort = 0;
  #publishPort = 0;
  #keys: Awaited<ReturnType<typeof makeKeyTexts>> = [];

  private constructor(directory: string, options: GroupOptions) {
    this.directory = directory;
    this.#options = options;
  }

  /** Writes the configuration and the keys of the minions. Starts nothing. */
  static async prepare(directory: string, options: GroupOptions): Promise<Group> {
    const group = new Group(directory, options);
    group.#requestPort = await freePort();
    group.#publishPort = await freePort();
    await group.configure('config', {});
    group.#keys = await makeKeyTexts(2);
    await acceptAll(path.join(directory, 'pki'), options.minions, group.#keys);
    return group;
  }

  /** Keys of the minions, in order. */
  get keys(): Awaited<ReturnType<typeof makeKeyTexts>> {
    return this.#keys;
  }

  get requestPort(): number {
    return this.#requestPort;
  }

  get publishPort(): number {
    return this.#publishPort;
  }

  get ids(): readonly string[] {
    return Array.from({ length: this.#options.minions }, (_, index) => swarmId(index));
  }

  get holder(): Member | undefined {
    return this.members.find((it) => it.role === 'holder' && !it.hasEnded);
  }

  get siblings(): readonly Member[] {
    return this.members.filter((it) => it.role !== 'holder' && !it.hasEnded);
  }

  /**
   * Writes a further configuration.
   * @param changes - changed options at the top level
   * @param ownChanges - changed options of `saltbridge:`
   */
  async configure(name: string, changes: object, ownChanges: object = {}): Promise<void> {
    const { takeoverAfter = 15, own = {}, more = {} } = this.#options;
    const config = {
      root_dir: this.directory,
      interface: '127.0.0.1',
      ret_port: this.#requestPort,
      publish_port: this.#publishPort,
      pki_dir: '/pki',
      sock_dir: '/run',
      cachedir: '/cache',
      log_file: '/log',
      pidfile: '/pid',
      saltbridge: {
        state_dir: '/state',
        socket: '/run/s.sock',
        takeover_after: takeoverAfter,
        limits: { requests_per_second: 0, events_per_second: 0 },
        ...own,
        ...ownChanges,
      },
      ...more,
      ...changes,
    };
    await mkdir(path.join(this.directory, name), { recursive: true });
    await writeFile(path.join(this.directory, name, 'master'), JSON.stringify(config));
  }

  /** Starts another process. Resolves when it holds the master or has joined. */
  async addMember(config = 'config'): Promise<Member> {
    const log = path.join(this.directory, `member-${this.members.length}.log`);
    const member = new Member(path.join(this.directory, config), log);
    this.members.push(member);
    await member.started();
    return member;
  }

  /** Signs the minions in. After that they receive jobs. */
  async addMinions(): Promise<void> {
    const imported = this.#keys.map(importKey);
    let known: Known | undefined;
    const { listening = this.ids.length } = this.#options;
    for (const [index, id] of this.ids.slice(0, listening).entries()) {
      const [key] = imported.slice(index % imported.length);
      if (key === undefined) throw new Error('no key');
      const minion = new LastingMinion({
        id,
        index,
        key,
        requestPort: this.#requestPort,
        publishPort: this.#publishPort,
        onJob: (jid, minionId) => {
          const name = `${jid} ${minionId}`;
          this.arrivals.set(name, (this.arrivals.get(name) ?? 0) + 1);
        },
        onAcknowledged: (jid, minionId) => this.acknowledged.push(`${jid} ${minionId}`),
        onOutdated: (minionId, why) => this.outdated.push(`${minionId}: ${why}`),
        ...(this.#options.jobMs === undefined ? {} : { jobMs: this.#options.jobMs }),
      });
      this.minions.push(minion);
      known = await minion.signIn(known);
      await minion.listen();
    }
  }

  /** Resolves with the process that holds the master, when it is not `former` any more. */
  async nextHolder(former: Member, ms: number): Promise<Member> {
    const isNext = (): boolean => this.holder !== undefined && this.holder !== former;
    await until('another process to hold the master', isNext, ms);
    return this.holder as Member;
  }

  /** Ends all processes and minions. */
  async end(): Promise<void> {
    for (const minion of this.minions) minion.stop();
    await Promise.all(this.members.map((it) => it.kill()));
  }
}
