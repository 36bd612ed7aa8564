import type { TransactionLog } from '#cluster';
import { type BareMasterOptions, createBareMaster, type Master, preloadMaster } from '#master';
import { preloadSaltServices, type SaltServiceOptions, saltServices } from '#salt';
import { requireEdge } from './edge-extensions.ts';

/** Options of {@link createMaster}: options of the master and of Salt's services. */
export interface CreateMasterOptions
  extends Omit<BareMasterOptions, 'leftOut' | 'storeProvider'>,
    SaltServiceOptions {
  /**
   * Opens the transaction log of the cluster. Default: connects to the NATS servers in
   * `saltbridge: cluster: nats`.
   * @internal
   */
  readonly clusterLog?: (() => Promise<TransactionLog>) | undefined;
}

/**
 * Creates a Salt master with Salt's services and the program's extensions. It opens no files or
 * ports before `start`.
 * @throws ConfigError if an option is invalid or conflicts with another one. The message names the
 * option as the program wrote it
 */
export function createMaster(options: CreateMasterOptions = {}): Master {
  const {
    without = [],
    fileserver,
    pillar,
    extPillar,
    tops,
    clusterLog,
    extensions = [],
    ...own
  } = options;
  const services = saltServices({ without, fileserver, pillar, extPillar, tops });
  const master = createBareMaster({
    ...own,
    leftOut: without,
    extensions: [...services, ...extensions],
    storeProvider: {
      open: async (member) => (await import('#cluster')).openMember(member, clusterLog),
    },
  });
  requireEdge(master.config, extensions);
  return master;
}

/** Loads in advance the modules that serve minions, so that a later start is faster. */
export async function preloadServices(): Promise<void> {
  await Promise.all([preloadMaster(), preloadSaltServices()]);
}
