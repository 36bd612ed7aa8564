import { type MasterConfig, type MasterOptions, resolveMasterConfig } from '#config';

/**
 * Returns the configuration of a master with its files below `rootDir`, on free ports of the
 * loopback interface.
 */
export function benchConfig(rootDir: string, more: Partial<MasterOptions>): MasterConfig {
  return resolveMasterConfig({
    rootDir,
    interface: '127.0.0.1',
    retPort: 0,
    publishPort: 0,
    pkiDir: '/pki',
    cachedir: '/cache',
    sockDir: '/run',
    stateDir: '/state',
    ...more,
  });
}
