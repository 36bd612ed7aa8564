/** A database instance, as Trove boots it. */
import path from 'node:path';
import type { MinionConfig } from '#heat-bridge';
import { freePort } from '../../bench/free-port.ts';
import { Machine } from '../machine.ts';

export class Instance extends Machine {
  /** Port of the database server. */
  readonly port: number;
  readonly #store: string;

  private constructor(port: number, store: string) {
    super('db/mariadbd.pid');
    this.port = port;
    this.#store = store;
  }

  /**
   * Creates an instance.
   * @param store - directory of backups
   */
  static async create(store: string): Promise<Instance> {
    return new Instance(await freePort(), store);
  }

  /** Volume of the instance, which is a file in this example. */
  get device(): string {
    return path.join(this.folder, 'volume');
  }

  /** Options of the minion. Its database is also below the folder. */
  override get config(): MinionConfig {
    const { folder, port, device } = this;
    return {
      ...super.config,
      trove: { directory: `${folder}/db`, store: this.#store, port, device },
    };
  }
}

/**
 * Returns user-data with the files that Trove's task manager writes to an instance
 * [trove/instance/models.py].
 */
export function troveUserData(guestId: string, project: string): string {
  const info = `[DEFAULT]
guest_id = ${guestId}
datastore_manager = mariadb
datastore_version = 10.11
tenant_id = ${project}
`;
  return `#cloud-config
write_files:
- encoding: b64
  owner: root:root
  path: /etc/trove/conf.d/guest_info.conf
  content: ${Buffer.from(info).toString('base64')}
`;
}
