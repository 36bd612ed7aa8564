/** The shared state of a bridge on two members of a cluster, with a log in memory. */
import type { ExecutionContext } from 'ava';
import { leaseKey } from '#cluster/duties.ts';
import { Lease } from '#cluster/lease.ts';
import type { LogStore } from '#cluster/log/log-store.ts';
import { createSilentLogger, type SharedArea } from '#master';
import { createSeal } from '#master/auth/seal.ts';
import type { MasterContext } from '#master/context/index.ts';
import { openSharedArea } from '#master/extensions/state-area.ts';
import { isWireMap, packLocal, unpackLocal, type WireMap } from '#minion-protocol';
import { TestCluster } from '../store-suite/cluster.ts';

/** A member that has the lease when the test says so. */
export class TestMember {
  readonly area: SharedArea;
  readonly #store: LogStore;
  readonly #name: string;
  #lease: Lease | undefined;
  #ending = new AbortController();
  #listeners: ((ended: AbortSignal) => void)[] = [];

  constructor(t: ExecutionContext, store: LogStore, name: string) {
    this.#store = store;
    this.#name = name;
    const end = new AbortController();
    t.teardown(() => end.abort());
    const isHeld = (): boolean => this.#lease !== undefined;
    const duties: MasterContext['duties'] = {
      get isHeld() {
        return isHeld();
      },
      handOver: async () => {},
      resume: () => {},
      onHeld: (listener) => void this.#listeners.push(listener),
      write: async (operations) => void (await this.#lease?.write(operations)),
    };
    const heard = new Map<string, (value: WireMap, from: string) => void>();
    store.onMessage((body, from) => {
      const message = unpackLocal(body);
      if (!isWireMap(message) || !isWireMap(message.value)) return;
      heard.get(String(message.kind))?.(message.value, from);
    });
    this.area = openSharedArea(
      {
        store,
        duties,
        log: createSilentLogger(),
        cluster: {
          member: name,
          isGone: () => false,
          announce: () => {},
          send: (kind, value) => store.send(packLocal({ kind, value })),
          onMessage: (kind, listener) => void heard.set(kind, listener),
          derive: () => Buffer.alloc(32, 7),
          follow: (prefix, listener) => store.onChange(prefix, listener, end.signal),
        },
      },
      createSeal(new Uint8Array(32)),
      'bridge',
    );
  }

  /** Takes the lease, without notifying the member that has it. */
  async begin(): Promise<void> {
    const store = this.#store;
    await store.write([{ op: 'delete', key: leaseKey }]);
    this.#lease = await Lease.acquire(store, { key: leaseKey, holder: this.#name, ttlMs: 60_000 });
    this.#ending = new AbortController();
    for (const listener of this.#listeners) listener(this.#ending.signal);
  }

  /** Makes the member notice that it has lost the lease. */
  end(): void {
    this.#lease = undefined;
    this.#ending.abort();
  }

  /** Waits until this member has applied everything that was written before. */
  async applied(): Promise<void> {
    await this.#store.barrier();
  }
}

/** Starts two members. Neither has the lease. */
export async function twoMembers(t: ExecutionContext): Promise<[TestMember, TestMember]> {
  const cluster = new TestCluster(t);
  await cluster.found();
  const [a, b] = [await cluster.open('a'), await cluster.open('b')];
  return [new TestMember(t, a, 'a'), new TestMember(t, b, 'b')];
}
