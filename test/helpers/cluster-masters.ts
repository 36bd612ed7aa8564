/** Runs several masters of a cluster in one process. Their log is in memory. */
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import type { TransactionLog } from '#cluster';
import { initCluster, joinCluster } from '#cluster';
import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';
import type { Master, MasterExtension } from '#master';
import { createMinion, type Minion, type MinionFunction } from '#minion-protocol';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import type { MinionTransport } from '#minion-protocol/transport/transport.ts';
import { type CreateMasterOptions, createMaster } from '#server';
import { waitMs } from './deadline.ts';
import { MemoryLog } from './memory-log.ts';
import { directories, writeMasterKeys } from './vector-master.ts';
import { pem } from './vectors.ts';

/** One master of the cluster. */
export interface ClusterMaster {
  readonly master: Master;
  readonly config: MasterConfig;
  /** Ids of minions whose connections this master has ended. */
  readonly disconnected: readonly string[];
  /** Requests that minions have sent to this master. */
  readonly sent: Uint8Array[];
  /** Sends a request to the request port and returns the reply. */
  ask(request: Uint8Array): Promise<Uint8Array>;
  /** Connects a minion with this id, which subscribes to publications. */
  connect(
    t: Pick<ExecutionContext, 'teardown'>,
    id: string,
    functions?: Readonly<Record<string, MinionFunction>>,
  ): Promise<Minion>;
}

/** Creates the masters of a cluster one after the other, below one directory. */
export class ClusterMasters {
  readonly log: MemoryLog = new MemoryLog();
  readonly #directory: string;
  readonly #options: Partial<MasterOptions>;
  readonly #create: (options: CreateMasterOptions) => Master;

  /** @param create - creates each master; default: a master without further extensions */
  constructor(
    directory: string,
    options: Partial<MasterOptions> = {},
    create: (options: CreateMasterOptions) => Master = createMaster,
  ) {
    this.#directory = directory;
    this.#options = options;
    this.#create = create;
  }

  /** Members that receive no entries of the log. */
  readonly withoutConsumer: Set<string> = new Set();

  readonly connect = async (): Promise<TransactionLog> => this.log.connect();

  configOf(member: string, options: Partial<MasterOptions> = {}): MasterConfig {
    return resolveMasterConfig({
      ...directories(path.join(this.#directory, member)),
      ...this.#options,
      cluster: { name: 'test', nats: ['nats://127.0.0.1:1'], member },
      ...options,
    });
  }

  /** Starts the first member. The cluster takes over the state and the keys of this master. */
  async first(member: string, extensions: readonly MasterExtension[] = []): Promise<ClusterMaster> {
    const config = this.configOf(member);
    writeMasterKeys(config.pkiDir);
    await initCluster(config, { connect: this.connect });
    return this.start(config, extensions);
  }

  /** Starts a member that joins with a ticket of another member. */
  async join(
    member: string,
    by: ClusterMaster,
    extensions: readonly MasterExtension[] = [],
  ): Promise<ClusterMaster> {
    const config = this.configOf(member);
    const { ticket } = await by.master.cluster.ticket();
    await joinCluster(config, ticket, { connect: this.connect });
    return this.start(config, extensions);
  }

  /** Starts a master that is a member already. */
  async start(
    config: MasterConfig,
    extensions: readonly MasterExtension[] = [],
  ): Promise<ClusterMaster> {
    const memory = createMemoryTransport();
    const disconnected: string[] = [];
    const sent: Uint8Array[] = [];
    const { master: transport } = memory;
    const disconnect = transport.disconnect.bind(transport);
    transport.disconnect = (id) => {
      disconnected.push(id);
      disconnect(id);
    };
    const master = this.#create({
      config,
      transports: [transport],
      clusterLog: async () =>
        this.log.connect(() => !this.withoutConsumer.has(config.cluster?.member ?? '')),
      extensions,
      ...(process.env.CLUSTER_LOG === undefined ? {} : { logLevel: 'info' as const }),
    });
    await master.start();
    return {
      master,
      config,
      disconnected,
      sent,
      ask: (request) => memory.dial('peer').request(request, waitMs),
      connect: (t, id, functions) => {
        const transport = memory.dial(id, '192.0.2.7');
        const send = transport.request.bind(transport);
        transport.request = (bytes, ms) => {
          sent.push(bytes);
          return send(bytes, ms);
        };
        return connect(t, transport, id, functions);
      },
    };
  }
}

async function connect(
  t: Pick<ExecutionContext, 'teardown'>,
  transport: MinionTransport,
  id: string,
  functions: Readonly<Record<string, MinionFunction>> = {},
): Promise<Minion> {
  const keys = { ...pem('other_minion'), masterPem: undefined, trustMaster: async () => {} };
  const minion = createMinion({ id, transport, keys, functions, acceptanceWaitMs: 50 });
  t.teardown(() => minion.stop());
  await minion.start();
  return minion;
}
