/** A centre that consists of several members of a cluster. Their log is in memory. */

import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { initCluster, joinCluster } from '#cluster';
import { type MasterConfig, resolveMasterConfig } from '#config';
import { MemoryLog } from '../../helpers/memory-log.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { writeMasterKeys } from '../../helpers/vector-master.ts';
import { type Centre, startCentre, stateDirOf } from '../edge-stage.ts';

type Options = NonNullable<Parameters<typeof startCentre>[1]>;

/** Creates the members of a centre one after the other. */
export class CentreMembers {
  readonly log: MemoryLog = new MemoryLog();
  readonly #t: ExecutionContext;
  readonly #directory: string;
  readonly #options: Options;
  readonly #started: Centre[] = [];

  /** @param options - options of all members */
  constructor(t: ExecutionContext, options: Options = {}) {
    this.#t = t;
    this.#directory = temporaryDirectory(t);
    this.#options = options;
  }

  directoryOf(name: string): string {
    return path.join(this.#directory, name);
  }

  /**
   * Starts members. The first call creates the cluster; the other members join with tickets.
   * @param options - options of these members
   */
  async start(names: readonly string[], options: Options = {}): Promise<readonly Centre[]> {
    const started: Centre[] = [];
    for (const name of names) {
      const config = this.#configOf(name);
      const [by] = this.#started;
      if (by === undefined) {
        writeMasterKeys(config.pkiDir);
        await initCluster(config, { connect: async () => this.log.connect() });
      } else {
        const { ticket } = await by.server.master.cluster.ticket();
        await joinCluster(config, ticket, { connect: async () => this.log.connect() });
      }
      started.push(await this.restart(name, options));
    }
    return started;
  }

  /** Starts a member, also again after it was closed. */
  async restart(name: string, options: Options = {}, port = 0): Promise<Centre> {
    const centre = await startCentre(
      this.#t,
      {
        cluster: { name: 'centre', nats: ['nats://127.0.0.1:1'], member: name },
        clusterLog: async () => this.log.connect(),
        ...this.#options,
        ...options,
      },
      this.directoryOf(name),
      port,
    );
    this.#started.push(centre);
    return centre;
  }

  #configOf(name: string): MasterConfig {
    const directory = this.directoryOf(name);
    return resolveMasterConfig({
      rootDir: directory,
      stateDir: stateDirOf(directory),
      cluster: { name: 'centre', nats: ['nats://127.0.0.1:1'], member: name },
    });
  }
}
