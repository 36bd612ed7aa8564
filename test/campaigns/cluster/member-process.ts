import { fork } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connectExtension, connectMaster, type ExtensionClient } from '#client';
import type { MasterApi } from '#master';
import { ChildControl } from '../../../bench/kill-child.ts';
import { until } from '../../helpers/deadline.ts';
import type { TcpProxy } from '../../helpers/tcp-proxy.ts';

/** Order to a member. */
export interface MemberOrder {
  /** Lead of its clock over the correct time, in milliseconds. */
  readonly clockMs: number;
}

/** Reason why a member ended by itself. */
export interface MemberEnd {
  readonly code: string | undefined;
  readonly message: string;
}

const program = fileURLToPath(new URL('./member.ts', import.meta.url));
const startMs = 90_000;

export interface MemberPlace {
  readonly name: string;
  /** Directory of its configuration. */
  readonly directory: string;
  /** Address at which minions reach it. */
  readonly host: string;
  /** URL of its HTTP API. */
  readonly url: string;
  readonly socketPath: string;
  /** Proxies between the member and the NATS servers, in the order of the servers. */
  readonly proxies: readonly TcpProxy[];
  readonly historyFile: string;
}

/** A master in a separate process. */
export class MemberProcess extends ChildControl {
  readonly place: MemberPlace;
  readonly api: MasterApi;
  readonly bridge: ExtensionClient;
  readonly ledger: ExtensionClient;
  /**
   * Time at which it last began to perform the duties of the cluster, in milliseconds since 1970.
   */
  heldSince: number | undefined;
  /** Reason why it ended by itself. */
  end: MemberEnd | undefined;
  #clockMs = 0;
  #hasStarted = false;

  constructor(place: MemberPlace) {
    super();
    this.place = place;
    const { socketPath } = place;
    this.api = connectMaster({ socketPath });
    this.bridge = connectExtension({ socketPath }, 'bridge');
    this.ledger = connectExtension({ socketPath }, 'ledger');
  }

  get name(): string {
    return this.place.name;
  }

  get clockMs(): number {
    return this.#clockMs;
  }

  /** Starts the process without waiting. */
  start(): void {
    const { directory, historyFile } = this.place;
    this.end = undefined;
    this.heldSince = undefined;
    this.#hasStarted = false;
    const child = fork(program, [directory, historyFile, String(this.#clockMs)], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.child = child;
    child.on('message', (end: MemberEnd) => {
      if (child === this.child) this.end = end;
    });
    if (child.stderr === null) throw new TypeError('no standard error');
    child.stderr.pipe(createWriteStream(path.join(directory, 'stderr'), { flags: 'a' }));
    createInterface({ input: child.stderr }).on('line', (line) => {
      if (child !== this.child) return;
      if (line.includes('"master started"')) this.#hasStarted = true;
      if (
        line.includes(
          '"this member now runs the tasks that only one cluster member runs, such as the schedule"',
        )
      ) {
        this.heldSince = Date.now();
      }
    });
  }

  /**
   * Resolves when the member serves minions or has ended by itself. In the second case {@link end}
   * has the reason.
   */
  async ready(): Promise<void> {
    await until(
      `${this.name} to start`,
      () => this.#hasStarted || this.end !== undefined || this.child?.exitCode === 1,
      startMs,
    );
  }

  setClock(clockMs: number): void {
    this.#clockMs = clockMs;
    const order: MemberOrder = { clockMs };
    this.child?.send(order);
  }
}
