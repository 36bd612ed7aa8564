import type { TransactionLog } from '#cluster';
import { type BareMasterOptions, createBareMaster, type Master, preloadMaster } from '#master';
import { preloadSaltServices, type SaltServiceOptions, saltServices } from '#salt';

/** Options of {@link createMaster}: those of the master and of Salt's services. */
export interface CreateMasterOptions
  extends Omit<BareMasterOptions, 'leftOut' | 'storeProvider'>,
    SaltServiceOptions {
  /**
   * Connects to the log of `saltbridge: cluster`. Default: connects to the log on its NATS servers.
   * @internal
   */
  readonly clusterLog?: (() => Promise<TransactionLog>) | undefined;
}

/**
 * Creates a Salt master: the master, Salt's services, and the extensions of the program. Opens
 * nothing before `start`.
 * @throws ConfigError, which names the option as the program does
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
  return createBareMaster({
    ...own,
    leftOut: without,
    extensions: [...services, ...extensions],
    storeProvider: {
      open: async (member) => (await import('#cluster')).openMember(member, clusterLog),
    },
  });
}

/** Loads the code that serves minions, which makes a later start faster. */
export async function preloadServices(): Promise<void> {
  await Promise.all([preloadMaster(), preloadSaltServices()]);
}
