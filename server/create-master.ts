import type { TransactionLog } from '#cluster';
import { ConfigError, type MasterConfig } from '#config';
import {
  type BareMasterOptions,
  createBareMaster,
  type Master,
  type MasterExtension,
  preloadMaster,
} from '#master';
import { preloadSaltServices, type SaltServiceOptions, saltServices } from '#salt';

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
 * @throws ConfigError. Its message contains the option name that the program used
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

/**
 * Only {@link serve} adds the extensions of the edge. Without them, a site would start as a master
 * of its own that never connects to its centre.
 * @throws ConfigError ERR_OPTION_CONFLICT
 */
function requireEdge(config: MasterConfig, extensions: readonly MasterExtension[]): void {
  const names = new Set(extensions.map(({ name }) => name));
  for (const [key, name, isSet] of [
    ['saltbridge:site', 'site', config.site !== null],
    ['saltbridge:sites', 'site-centre', config.sites !== null],
  ] as const) {
    if (!isSet || names.has(name)) continue;
    const problem =
      'createMaster and joinMaster run neither a site nor a centre; remove the option, or start the master with serve or saltbridge master';
    throw new ConfigError('ERR_OPTION_CONFLICT', { file: 'options', line: 0, key }, problem);
  }
}

/** Loads in advance the modules that serve minions, so that a later start is faster. */
export async function preloadServices(): Promise<void> {
  await Promise.all([preloadMaster(), preloadSaltServices()]);
}
